#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "mlbench/base/errors.h"
#include "mlbench/base/sha256.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/fetch.h"
#include "mlbench/dataset/locate.h"
#include "mlbench/dataset/test_support.h"

namespace mlbench::dataset {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Serves files from memory on 127.0.0.1, one request per connection, as well or badly as the test wants.
class Server {
 public:
  std::map<std::string, std::string> files;  // path to content
  bool ranges = true;                        // honours "Range: bytes=N-"
  int cuts = 0;                              // number of answers that end after half of what is left
  std::string redirect;                      // every request is sent there

  Server() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(listener_.get(), 8) != 0 ||
        getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
      throw std::runtime_error("cannot listen on 127.0.0.1");
    }
    port_ = ntohs(address.sin_port);
  }
  void start() {
    thread_ = std::thread([this] { run(); });
  }
  ~Server() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  // Returns the requests so far: "PATH" or "PATH from N".
  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void run() {
    while (!stop_) {
      pollfd entry{listener_.get(), POLLIN, 0};
      if (poll(&entry, 1, 20) != 1) continue;
      const FileDescriptor connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (connection) answer(connection.get());
    }
  }

  void answer(int connection) {
    std::string request;
    char buffer[4096];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t count = recv(connection, buffer, sizeof buffer, 0);
      if (count <= 0) return;
      request.append(buffer, static_cast<size_t>(count));
    }
    const std::string path = request.substr(4, request.find(' ', 4) - 4);
    size_t from = 0;
    if (const size_t at = request.find("Range: bytes="); at != std::string::npos)
      from = std::stoul(request.substr(at + 13));
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(from == 0 ? path : path + " from " + std::to_string(from));
    }
    if (!redirect.empty()) return reply(connection, "302 Found", "Location: " + redirect + "\r\n", "", 0);
    const auto file = files.find(path);
    if (file == files.end()) return reply(connection, "404 Not Found", "", "", 0);
    const std::string& content = file->second;
    const std::string size = std::to_string(content.size());
    if (from == 0 || !ranges) {
      body(connection, "200 OK", "", content);
    } else if (from >= content.size()) {
      reply(connection, "416 Range Not Satisfiable", "Content-Range: bytes */" + size + "\r\n", "", 0);
    } else {
      body(connection, "206 Partial Content",
           "Content-Range: bytes " + std::to_string(from) + "-" + std::to_string(content.size() - 1) + "/" + size +
               "\r\n",
           content.substr(from));
    }
  }

  void body(int connection, const std::string& status, const std::string& headers, const std::string& content) {
    const bool cut = cuts > 0;
    if (cut) --cuts;
    reply(connection, status, headers, cut ? content.substr(0, content.size() / 2) : content, content.size());
  }

  static void reply(int connection, const std::string& status, const std::string& headers, const std::string& content,
                    size_t promised) {
    const std::string text = "HTTP/1.1 " + status +
                             "\r\nConnection: close\r\nContent-Length: " + std::to_string(promised) + "\r\n" + headers +
                             "\r\n" + content;
    for (size_t done = 0; done < text.size();) {
      const ssize_t count = send(connection, text.data() + done, text.size() - done, MSG_NOSIGNAL);
      if (count <= 0) return;
      done += static_cast<size_t>(count);
    }
  }

  FileDescriptor listener_;
  int port_ = 0;
  std::thread thread_;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::vector<std::string> requests_;
};

class Fetch : public ::testing::Test {
 protected:
  Fetch() {
    const TemporaryFolder made;
    test::write_tiny(made.path());
    for (const auto& entry : fs::directory_iterator(made.path())) {
      server_.files["/" + entry.path().filename().string()] = read_file(entry.path());
    }
    images_ = server_.files.at("/train-images.gz");
    // A proxy of the machine's is not for this server.
    setenv("no_proxy", "127.0.0.1", 1);
  }

  DatasetDescription description() const {
    DatasetDescription described =
        parse_description("tiny.toml", test::tiny_toml("", server_.url(), sha256_hex(images_)));
    described.splits[0].files[0].bytes = static_cast<int64_t>(images_.size());
    return described;
  }
  void fetch_all() { fetch(description(), data_.path(), {}); }
  fs::path images_path() const { return data_ / "tiny/train-images.gz"; }
  fs::path part_path() const { return data_ / "tiny/train-images.gz.part"; }
  std::string first_request() { return server_.requests().at(0); }

  Server server_;
  std::string images_;
  TemporaryFolder data_;
};

TEST_F(Fetch, BringsAllFilesToWhereTheyAreFound) {
  server_.start();
  std::map<std::string, std::pair<int64_t, int64_t>> last;
  const fs::path folder = fetch(description(), data_.path(), [&](const std::string& file, int64_t done, int64_t total) {
    last[file] = {done, total};
  });
  EXPECT_EQ(folder, data_ / "tiny");
  EXPECT_EQ(read_file(images_path()), images_);
  EXPECT_EQ(locate(description(), {data_.path().string()}).folder, data_ / "tiny");
  const auto size = static_cast<int64_t>(images_.size());
  EXPECT_EQ(last.at("train-images.gz"), std::make_pair(size, size));
  EXPECT_EQ(last.size(), 4U);

  const size_t requests = server_.requests().size();
  fetch_all();
  EXPECT_EQ(server_.requests().size(), requests) << "nothing is missing";
}

TEST_F(Fetch, UnpackedFilesAreNotMissing) {
  test::write_tiny(data_ / "tiny", false);
  server_.start();
  fetch_all();
  EXPECT_THAT(server_.requests(), IsEmpty());
}

TEST_F(Fetch, GoesOnWhereAnEarlierCallStopped) {
  test::write_file(part_path(), images_.substr(0, 30));
  server_.start();
  fetch_all();
  EXPECT_EQ(first_request(), "/train-images.gz from 30");
  EXPECT_EQ(read_file(images_path()), images_);
  EXPECT_FALSE(fs::exists(part_path()));
}

TEST_F(Fetch, GoesOnAfterACut) {
  server_.cuts = 2;
  server_.start();
  fetch_all();
  const size_t half = images_.size() / 2;
  const size_t more = half + (images_.size() - half) / 2;
  const auto requests = server_.requests();
  EXPECT_THAT(std::vector(requests.begin(), requests.begin() + 3),
              ElementsAre("/train-images.gz", "/train-images.gz from " + std::to_string(half),
                          "/train-images.gz from " + std::to_string(more)));
  EXPECT_EQ(read_file(images_path()), images_);
}

TEST_F(Fetch, KeepsWhatCameWhenTheServerNeverFinishes) {
  server_.cuts = 1000;
  server_.start();
  EXPECT_THAT(message_of<IoError>([&] { fetch_all(); }),
              AllOf(HasSubstr(server_.url() + "/train-images.gz"), HasSubstr(part_path().string())));
  EXPECT_GT(fs::file_size(part_path()), images_.size() / 2);
  EXPECT_FALSE(fs::exists(images_path()));
}

TEST_F(Fetch, StartsAnewWhereTheServerKnowsNoRanges) {
  test::write_file(part_path(), images_.substr(0, 30));
  server_.ranges = false;
  server_.start();
  fetch_all();
  EXPECT_EQ(read_file(images_path()), images_);
}

TEST_F(Fetch, StartsAnewWhenTheRestDoesNotFit) {
  test::write_file(part_path(), std::string(30, 'x'));
  server_.start();
  fetch_all();
  EXPECT_EQ(read_file(images_path()), images_);

  fs::remove(images_path());
  test::write_file(part_path(), images_ + "and more");
  fetch_all();
  EXPECT_EQ(read_file(images_path()), images_);
}

TEST_F(Fetch, WholePartNeedsOnlyItsName) {
  test::write_tiny(data_ / "tiny");
  fs::rename(images_path(), part_path());
  server_.start();
  fetch_all();
  EXPECT_EQ(read_file(images_path()), images_);
  EXPECT_THAT(server_.requests(), IsEmpty());
}

TEST_F(Fetch, WrongChecksum) {
  server_.files.at("/train-images.gz")[20] ^= 1;
  server_.start();
  EXPECT_THAT(message_of<UserError>([&] { fetch_all(); }),
              AllOf(HasSubstr("/train-images.gz is not the published file"), HasSubstr(sha256_hex(images_)),
                    HasSubstr(sha256_hex(server_.files.at("/train-images.gz")))));
  EXPECT_FALSE(fs::exists(images_path()));
  EXPECT_FALSE(fs::exists(part_path()));
}

TEST_F(Fetch, MissingOnTheServer) {
  server_.files.erase("/test-labels.gz");
  server_.start();
  EXPECT_THAT(message_of<IoError>([&] { fetch_all(); }), AllOf(HasSubstr("/test-labels.gz"), HasSubstr("404")));
  EXPECT_TRUE(fs::exists(images_path())) << "what came before is kept";
}

TEST_F(Fetch, NobodyListens) {
  DatasetDescription nowhere = description();
  nowhere.splits[0].files[0].url = "http://127.0.0.1:1/train-images.gz";
  EXPECT_THAT(message_of<IoError>([&] { fetch(nowhere, data_.path(), {}); }), HasSubstr("http://127.0.0.1:1/"));
}

TEST_F(Fetch, OnlyHttp) {
  test::write_file(data_ / "secret", "secret");
  DatasetDescription local = description();
  local.splits[0].files[0].url = "file://" + (data_ / "secret").string();
  EXPECT_THAT(message_of<UserError>([&] { fetch(local, data_.path(), {}); }),
              AllOf(HasSubstr("file://"), HasSubstr("http or https")));

  server_.redirect = local.splits[0].files[0].url;
  server_.start();
  EXPECT_THAT(message_of<UserError>([&] { fetch_all(); }), HasSubstr("http or https"));
  EXPECT_FALSE(fs::exists(images_path()));
}

TEST_F(Fetch, NoAddressKnown) {
  EXPECT_THAT(message_of<UserError>([&] { fetch(test::tiny(), data_.path(), {}); }),
              AllOf(HasSubstr("train-images of tiny cannot be fetched"), HasSubstr((data_ / "tiny").string())));
}

TEST_F(Fetch, ErrorOfTheProgressFunctionComesBack) {
  server_.start();
  EXPECT_EQ(message_of<InternalError>([&] {
              fetch(description(), data_.path(),
                    [](const std::string&, int64_t, int64_t) { throw InternalError("stop"); });
            }),
            "stop");
}

TEST_F(Fetch, OneAtATime) {
  fs::create_directories(data_ / "tiny");
  const auto lock = FileLock::acquire(data_ / "tiny/.fetch.lock", std::chrono::milliseconds(0));
  ASSERT_TRUE(lock);
  EXPECT_THAT(message_of<UserError>([&] { fetch_all(); }), HasSubstr("another process"));
}

}  // namespace
}  // namespace mlbench::dataset
