/* K-means in plain C, by the protocol of docs/peers.md: lines of JSON on standard input and output, arrays
 * in files. Any language can do this; no header of clusterbench is needed.
 *
 *   cc -O3 -march=native -std=c11 kmeans_mine_c.c -o kmeans_mine_c && clusterbench judge kmeans_mine_c
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char line[1 << 16], paths[6][256];
enum { POINTS, START, LABELS, CENTROIDS, ENTERING };
static const char* const names[] = {"points", "start", "labels", "centroids", "entering"};
static size_t n, d, k, passes;
static float *points, *centroids, *entering;
static int32_t* labels;

static void fail(const char* what) {
  printf("{\"reply\": \"error\", \"message\": \"%s\"}\n", what);
  exit(0);
}

/* The value of a key, behind its colon: enough of JSON for what the harness sends. */
static const char* value_of(const char* key) {
  char quoted[32];
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  const char* at = strstr(line, quoted);
  for (at = at ? at + strlen(quoted) : NULL; at && *at == ' '; ++at) {
  }
  return at;
}

static size_t number(const char* key) {
  const char* const text = value_of(key);
  return text ? strtoull(text, NULL, 10) : 0;
}

static void text(const char* key, char* to) {
  const char* const value = value_of(key);
  to[0] = 0;
  if (value && *value == '"') {
    sscanf(value, "\"%255[^\"]", to);
  }
}

static void* memory(size_t bytes) {
  void* const got = malloc(bytes);
  if (!got) {
    fail("there is no memory");
  }
  return got;
}

static void read_file(const char* path, void* to, size_t bytes) {
  FILE* const file = fopen(path, "rb");
  if (!file || fread(to, 1, bytes, file) != bytes) {
    fail("a file cannot be read");
  }
  fclose(file);
}

static void write_file(const char* path, const void* from, size_t bytes) {
  FILE* const file = fopen(path, "r+b"); /* in place: its size is fixed */
  if (!file || fwrite(from, 1, bytes, file) != bytes || fclose(file) != 0) {
    fail("a file cannot be written");
  }
}

static void take_points(void) {
  n = number("n"), d = number("d"), k = number("k"), passes = number("max_iterations");
  for (int i = 0; i <= ENTERING; ++i) {
    text(names[i], paths[i]);
  }
  free(points), free(centroids), free(entering), free(labels);
  points = memory(n * d * sizeof *points);
  centroids = memory(k * d * sizeof *centroids);
  entering = memory(k * d * sizeof *entering);
  labels = memory(n * sizeof *labels);
  float* const rows = memory(n * d * sizeof *rows);
  read_file(paths[POINTS], rows, n * d * sizeof *rows);
  const size_t rotate = number("rotate"); /* row i of the copy is row (i + rotate) mod n of the file */
  memcpy(points, rows + rotate * d, (n - rotate) * d * sizeof *rows);
  memcpy(points + (n - rotate) * d, rows, rotate * d * sizeof *rows);
  free(rows);
}

static void pass(double* sums, double* counts) {
  memset(sums, 0, k * d * sizeof *sums);
  memset(counts, 0, k * sizeof *counts);
  memcpy(entering, centroids, k * d * sizeof *entering);
  for (size_t i = 0; i < n; ++i) {
    size_t best = 0;
    float least = 3e38f;
    for (size_t j = 0; j < k; ++j) { /* ties go to the lowest index */
      float squared = 0;
      for (size_t f = 0; f < d; ++f) {
        const float difference = points[i * d + f] - entering[j * d + f];
        squared += difference * difference;
      }
      if (squared < least) {
        least = squared, best = j;
      }
    }
    labels[i] = (int32_t)best;
    counts[best] += 1;
    for (size_t f = 0; f < d; ++f) {
      sums[best * d + f] += points[i * d + f];
    }
  }
  for (size_t e = 0; e < k * d; ++e) {
    if (counts[e / d] > 0) { /* an empty cluster keeps its centroid */
      centroids[e] = (float)(sums[e] / counts[e / d]);
    }
  }
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void run(const char* request) {
  read_file(paths[START], centroids, k * d * sizeof *centroids);
  const double begin = now();
  double* const sums = memory(k * d * sizeof *sums);
  double* const counts = memory(k * sizeof *counts);
  for (size_t i = 0; i < passes; ++i) {
    pass(sums, counts);
  }
  free(sums), free(counts);
  printf("{\"reply\": \"%s\", \"seconds\": %.9f, \"iterations\": %zu}\n", request, now() - begin, passes);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  while (fgets(line, sizeof line, stdin)) {
    char request[256];
    text("request", request);
    if (strcmp(request, "describe") == 0) {
      puts("{\"reply\": \"describe\", \"protocol\": 2, \"variants\": [{\"name\": \"kmeans_mine_c\", "
           "\"idea\": \"plain C\", \"source\": \"Lloyd 1982\", \"precisions\": [\"f32\"], "
           "\"gives_entering\": true}]}");
    } else if (strcmp(request, "load") == 0) {
      puts("{\"reply\": \"load\", \"versions\": {\"C\": \"11\"}}");
    } else if (strcmp(request, "points") == 0) {
      take_points();
      puts("{\"reply\": \"points\"}");
    } else if (strcmp(request, "run") == 0 || strcmp(request, "whole") == 0) {
      run(request);
    } else {
      if (strcmp(request, "take") == 0) {
        write_file(paths[LABELS], labels, n * sizeof *labels);
        write_file(paths[CENTROIDS], centroids, k * d * sizeof *centroids);
        write_file(paths[ENTERING], entering, k * d * sizeof *entering);
      }
      printf("{\"reply\": \"%s\", \"seconds\": 1e-9}\n", request); /* ping, prepare, take: nothing to time */
    }
  }
  return 0;
}
