#include "core/unix_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace kvtier {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class UnixListenerTest : public ::testing::Test {
 protected:
  UnixListenerTest() {
    std::string name = "/tmp/kvtier-unix-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no directory " << name;
    directory_ = name;
    path_ = directory_ + "/sockets/s";
    std::filesystem::create_directory(directory_ + "/sockets");
  }
  ~UnixListenerTest() override { std::filesystem::remove_all(directory_); }

  bool Connects() const {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const bool connected =
        connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    close(fd);
    return connected;
  }

  std::string directory_;
  std::string path_;
};

TEST_F(UnixListenerTest, AFileHasItsModeWhateverTheUmaskIs) {
  for (const mode_t mask : {0, 0077}) {
    for (const mode_t mode : {0600, 0660}) {
      const mode_t before = umask(mask);
      const auto listener = UnixListener::Listen(path_, SOCK_STREAM, mode);
      umask(before);
      ASSERT_TRUE(listener.ok()) << listener.status();
      struct stat file{};
      ASSERT_EQ(stat(path_.c_str(), &file), 0);
      EXPECT_EQ(file.st_mode & 0777, mode) << "umask " << mask;
    }
  }
}

// Between bind() and chmod() a socket would be as open as the umask leaves it.
TEST_F(UnixListenerTest, NobodySeesTheFileWiderThanItsMode) {
  const mode_t before = umask(0);
  std::atomic<bool> stop = false;
  std::atomic<mode_t> seen = 0;
  std::thread watcher([&] {
    struct stat file{};
    while (!stop) {
      if (stat(path_.c_str(), &file) == 0) seen |= file.st_mode & 0777;
    }
  });
  for (int i = 0; i < 2000; ++i) {
    EXPECT_TRUE(UnixListener::Listen(path_, SOCK_STREAM, 0600).ok());
  }
  stop = true;
  watcher.join();
  umask(before);
  EXPECT_EQ(seen, 0600);
}

TEST_F(UnixListenerTest, APathThatIsTooLongIsRefusedByName) {
  const std::string path = directory_ + "/" + std::string(100, 'x');
  EXPECT_THAT(UnixListener::Listen(path, SOCK_STREAM, 0600).status().message(),
              AllOf(HasSubstr(path), HasSubstr("107")));
}

TEST_F(UnixListenerTest, AFileThatIsThereIsLeftAlone) {
  auto listener = UnixListener::Listen(path_, SOCK_STREAM, 0600);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const int before = listener->fd();
  EXPECT_EQ(listener->KeepFile().value_or(true), false);
  EXPECT_EQ(listener->fd(), before);
  EXPECT_TRUE(Connects());
}

TEST_F(UnixListenerTest, AFileThatWasRemovedIsMadeAgainWithItsModeAlsoWithItsDirectory) {
  auto listener = UnixListener::Listen(path_, SOCK_STREAM, 0660);
  ASSERT_TRUE(listener.ok()) << listener.status();
  for (const std::string& removed : {path_, directory_ + "/sockets"}) {
    std::filesystem::remove_all(removed);
    EXPECT_FALSE(Connects());
    EXPECT_EQ(listener->KeepFile().value_or(false), true) << removed;
    EXPECT_TRUE(Connects()) << removed;
    struct stat file{};
    ASSERT_EQ(stat(path_.c_str(), &file), 0);
    EXPECT_EQ(file.st_mode & 0777, 0660u);
  }
}

TEST_F(UnixListenerTest, AFileOfAnotherProgramIsNamedAndStays) {
  {
    auto listener = UnixListener::Listen(path_, SOCK_STREAM, 0600);
    ASSERT_TRUE(listener.ok()) << listener.status();
    std::filesystem::remove(path_);
    const auto other = UnixListener::Listen(path_, SOCK_STREAM, 0600);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_THAT(listener->KeepFile().status().message(),
                AllOf(HasSubstr(path_), HasSubstr("another program")));
    EXPECT_TRUE(Connects());
    std::filesystem::remove(path_);
    std::ofstream(path_) << "no socket";
    EXPECT_FALSE(listener->KeepFile().ok());
  }
  EXPECT_TRUE(std::filesystem::exists(path_)) << "it was not the listeners' file";
}

TEST_F(UnixListenerTest, TheFileGoesWithItsListener) {
  EXPECT_TRUE(UnixListener::Listen(path_, SOCK_STREAM, 0600).ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace kvtier
