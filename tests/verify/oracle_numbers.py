"""Prints the reference numbers in test_oracle.cpp, computed without any code of this project:
k-means by scikit-learn, fuzzy c-means by NumPy in extended precision.

Run it again with /usr/bin/python3 tests/verify/oracle_numbers.py after changing the problem.
"""
import warnings

import numpy as np
from sklearn.cluster import KMeans

N, D, K = 200, 3, 4
i, f = np.mgrid[0:N, 0:D]
X = ((37 * i + 101 * f + 13 * i * i + 7 * i * f) % 1009) / 16.0  # exact in binary
C0 = X[:K].copy()
warnings.simplefilter("ignore")  # scikit-learn warns about few iterations

print("k-means, centroids after pass 6:")
inertia = [float(((X[:, None] - C0[None]) ** 2).sum(-1).min(1).sum())]
loss = []
centroids = C0
for passes in range(1, 7):
    loss.append(float(np.sqrt(((X[:, None] - centroids[None]) ** 2).sum(-1).min(1)).sum()))
    fit = KMeans(K, init=C0, n_init=1, max_iter=passes, tol=0, algorithm="lloyd").fit(X)
    centroids = fit.cluster_centers_
    inertia.append(fit.inertia_)
for row in centroids:
    print("  ", ", ".join(f"{v:.17g}" for v in row))
print("inertia of the centroids after 0 .. 6 passes:")
print("  ", ", ".join(f"{v:.17g}" for v in inertia))
print("sum of distances in passes 1 .. 6:")
print("  ", ", ".join(f"{v:.17g}" for v in loss))
fit = KMeans(K, init=C0, n_init=1, max_iter=300, tol=0, algorithm="lloyd").fit(X)
print("passes until no label changes:", fit.n_iter_)

x = X.astype(np.longdouble)


def memberships(c, m):
    squared = ((x[:, None] - c[None]) ** 2).sum(-1)
    u = np.empty_like(squared)
    for row in range(N):
        zero = squared[row] == 0
        if zero.any():
            u[row] = zero / zero.sum()
        else:
            p = squared[row] ** (-1 / (np.longdouble(m) - 1))
            u[row] = p / p.sum()
    return u, squared


def centres(u, m):
    w = u ** np.longdouble(m)
    return (w.T @ x) / w.sum(0)[:, None]


for m in (2.0, 1.5):
    c, objective = C0.astype(np.longdouble), []
    for _ in range(5):
        u, squared = memberships(c, m)
        objective.append((u ** np.longdouble(m) * squared).sum())
        c = centres(u, m)
    print(f"FCM m={m} from centres, objectives of 5 passes, then the centres:")
    print("  ", ", ".join(f"{float(v):.17g}" for v in objective))
    for row in c:
        print("  ", ", ".join(f"{float(v):.17g}" for v in row))
u = np.zeros((N, K), np.longdouble)
for row in range(N):
    u[row] = np.array([1 + (row * 5 + j * 3) % 8 for j in range(K)], np.longdouble)
    u[row] /= u[row].sum()
u = u.astype(np.float64).astype(np.longdouble)
objective = []
for _ in range(3):
    c = centres(u, 2.0)
    u, squared = memberships(c, 2.0)
    objective.append((u**2 * squared).sum())
print("FCM m=2.0 from memberships, objectives of 3 passes, then the centres:")
print("  ", ", ".join(f"{float(v):.17g}" for v in objective))
for row in c:
    print("  ", ", ".join(f"{float(v):.17g}" for v in row))
