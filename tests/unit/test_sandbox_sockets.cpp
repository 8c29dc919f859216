// The sandbox: sockets and networks.
#include "tests/unit/sandboxed.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace clusterbench {
namespace {

TEST_F(Sandbox, ThereIsNoNetwork) {
  SKIP_WITHOUT("seccomp");
  EXPECT_FALSE(works([] { return socket(AF_INET, SOCK_STREAM, 0) >= 0; }));
  EXPECT_FALSE(works([] { return socket(AF_INET, SOCK_DGRAM, 0) >= 0; }));
  EXPECT_FALSE(works([] { return socket(AF_INET6, SOCK_STREAM, 0) >= 0; }));
  EXPECT_FALSE(works([] { return calls(SYS_socket, (1L << 32) | AF_INET, SOCK_STREAM, 0); }));
  // A ring of requests could ask for a socket where no filter looks.
  EXPECT_FALSE(works([] {
    std::uint64_t parameters[15] = {};
    return calls(SYS_io_uring_setup, 4, parameters);
  }));
  EXPECT_TRUE(works([] { // what libraries talk to themselves with
    int ends[2];
    return socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && send(ends[0], "x", 1, 0) == 1;
  }));
}

TEST_F(Sandbox, SocketsOfOtherFamiliesAreNotMade) {
  SKIP_WITHOUT("seccomp");
  for (const int family : {AF_UNSPEC, AF_NETLINK, AF_PACKET, AF_ALG, AF_TIPC, AF_VSOCK, AF_XDP,
                           AF_MAX - 1, AF_MAX, AF_MAX + 7}) {
    EXPECT_TRUE(works([=] { return is_forbidden(socket(family, SOCK_DGRAM, 0)); })) << family;
    EXPECT_TRUE(works([=] { return is_forbidden(socket(family, SOCK_RAW, 0)); })) << family;
    int ends[2];
    EXPECT_TRUE(works([&] { return is_forbidden(socketpair(family, SOCK_STREAM, 0, ends)); }));
  }
  EXPECT_TRUE(works([] { return socket(AF_UNIX, SOCK_STREAM, 0) >= 0; })); // CUDA makes one
}

/// A socket of this machine. A name that begins with a zero is of no file.
class LocalSocket {
public:
  LocalSocket(int kind, std::string_view name) : descriptor_(socket(AF_UNIX, kind, 0)) {
    address_.sun_family = AF_UNIX;
    name.copy(address_.sun_path, sizeof address_.sun_path - 1);
    size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  }
  ~LocalSocket() { close(descriptor_); }
  LocalSocket(const LocalSocket&) = delete;
  LocalSocket& operator=(const LocalSocket&) = delete;

  bool listens() const {
    return bind(descriptor_, general(), size_) == 0 &&
           (listen(descriptor_, 9) == 0 || errno == EOPNOTSUPP);
  }
  bool connects() const { return connect(descriptor_, general(), size_) == 0; }
  bool sends() const { return sendto(descriptor_, "x", 1, 0, general(), size_) == 1; }
  bool sends_message() {
    iovec text{address_.sun_path, 1};
    msghdr message{};
    message.msg_name = &address_;
    message.msg_namelen = size_;
    message.msg_iov = &text;
    message.msg_iovlen = 1;
    return sendmsg(descriptor_, &message, 0) == 1;
  }

private:
  const sockaddr* general() const { return reinterpret_cast<const sockaddr*>(&address_); }

  int descriptor_;
  sockaddr_un address_{};
  socklen_t size_ = 0;
};

TEST_F(Sandbox, AModuleReachesNoSocketOfOthers) {
  SKIP_WITHOUT("seccomp");
  const std::string abstract = std::string(1, '\0') + "clusterbench-" + std::to_string(getpid());
  for (const std::string& name : {(top_ / "socket").string(), abstract}) {
    const LocalSocket listening(SOCK_STREAM, name);
    ASSERT_TRUE(listening.listens());
    ASSERT_TRUE(LocalSocket(SOCK_STREAM, name).connects());
    EXPECT_FALSE(works([&] { return LocalSocket(SOCK_STREAM, name).connects(); }));
    EXPECT_TRUE(works([&] { // as where there is none
      return !LocalSocket(SOCK_STREAM, name).connects() && errno == ENOENT;
    }));
  }
  for (const std::string& name : {(top_ / "mailbox").string(), abstract + "-mailbox"}) {
    const LocalSocket mailbox(SOCK_DGRAM, name);
    ASSERT_TRUE(mailbox.listens());
    ASSERT_TRUE(LocalSocket(SOCK_DGRAM, name).sends());
    ASSERT_TRUE(LocalSocket(SOCK_DGRAM, name).sends_message());
    EXPECT_FALSE(works([&] { return LocalSocket(SOCK_DGRAM, name).sends(); }));
    EXPECT_FALSE(works([&] { return LocalSocket(SOCK_DGRAM, name).sends_message(); }));
    EXPECT_FALSE(works([&] { return LocalSocket(SOCK_DGRAM, name).connects(); }));
  }
}

TEST_F(Sandbox, AProgramReachesWhatItHasMade) {
  plan_.may_start_processes = true;
  const std::string name = (plan_.scratch / "socket").string();
  const std::string abstract = std::string(1, '\0') + "clusterbench-" + std::to_string(getpid());
  for (const std::string& own : {name, abstract}) {
    EXPECT_TRUE(works([&] {
      const LocalSocket listening(SOCK_STREAM, own);
      return listening.listens() && LocalSocket(SOCK_STREAM, own).connects();
    }));
  }
  const std::string other = (plan_.scratch / "ranks").string(); // where ranks find the harness
  const LocalSocket ours(SOCK_STREAM, other);
  ASSERT_TRUE(ours.listens());
  EXPECT_TRUE(works([&] { return LocalSocket(SOCK_STREAM, other).connects(); }));
}

TEST_F(Sandbox, AProgramReachesNoSocketOfOthers) {
  plan_.may_start_processes = true;
  const std::string stream = (top_ / "a socket").string(), mailbox = (top_ / "mailbox").string();
  const LocalSocket listening(SOCK_STREAM, stream), taking(SOCK_DGRAM, mailbox);
  ASSERT_TRUE(listening.listens());
  ASSERT_TRUE(taking.listens());
  if (!lacks("a namespace of mounts")) {
    for (const bool own_network : {false, true}) {
      plan_.own_network = own_network;
      EXPECT_FALSE(works([&] { return LocalSocket(SOCK_STREAM, stream).connects(); }));
      EXPECT_FALSE(works([&] { return LocalSocket(SOCK_DGRAM, mailbox).sends(); }));
      EXPECT_FALSE(works([&] { return LocalSocket(SOCK_DGRAM, mailbox).sends_message(); }));
    }
    plan_.own_network = false;
  }
  EXPECT_TRUE(LocalSocket(SOCK_STREAM, stream).connects());
  const std::string abstract = std::string(1, '\0') + "clusterbench-" + std::to_string(getpid());
  const LocalSocket ours(SOCK_STREAM, abstract);
  ASSERT_TRUE(ours.listens());
  SKIP_WITHOUT("Landlock: ");
  SKIP_WITHOUT("Landlock's scopes");
  EXPECT_FALSE(works([&] { return LocalSocket(SOCK_STREAM, abstract).connects(); }));
}

// A listener on the loopback device of its own, and one of ours that it does not reach.
TEST_F(Sandbox, ANetworkOfItsOwn) {
  const auto listener = [](sockaddr_in& address) {
    const int listening = socket(AF_INET, SOCK_STREAM, 0);
    address = {
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t size = sizeof address;
    auto* const general = reinterpret_cast<sockaddr*>(&address);
    return bind(listening, general, size) == 0 && listen(listening, 1) == 0 &&
           getsockname(listening, general, &size) == 0;
  };
  const auto reaches = [](const sockaddr_in& address) {
    const int calling = socket(AF_INET, SOCK_STREAM, 0);
    return connect(calling, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  };
  sockaddr_in ours{};
  ASSERT_TRUE(listener(ours));
  ASSERT_TRUE(reaches(ours));
  plan_.own_network = true;
  works([] { return true; });
  SKIP_WITHOUT("a network namespace");
  EXPECT_TRUE(works([&] {
    sockaddr_in own{};
    return listener(own) && reaches(own);
  }));
  EXPECT_FALSE(works([&] { return reaches(ours); }));
  // Its libraries ask which devices there are, and nothing else of the kernel.
  EXPECT_TRUE(works([] {
    ifaddrs* devices = nullptr;
    return getifaddrs(&devices) == 0 && devices != nullptr;
  }));
  SKIP_WITHOUT("seccomp");
  EXPECT_TRUE(
      works([] { return is_forbidden(socket(AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT)); }));
  EXPECT_TRUE(works([] { return is_forbidden(socket(AF_PACKET, SOCK_RAW, 0)); }));
  EXPECT_TRUE(works([] { return is_forbidden(socket(AF_VSOCK, SOCK_STREAM, 0)); }));
}

} // namespace
} // namespace clusterbench
