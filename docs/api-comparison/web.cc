// A web handler, with RocksDB. It has no calls that return a future: `std::async` makes a thread
// for each. The HTTP here is the smallest that does.

#include <arpa/inet.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "check.h"
#include "rocksdb/db.h"

using namespace rocksdb;

using Response = std::pair<int, std::string>;

std::future<Response> Handle(DB* db, std::string method, std::string path, std::string body) {
  return std::async(std::launch::async, [=]() -> Response {
    std::string key = path.substr(1);
    Status status;
    if (method == "GET") {
      std::string value;
      status = db->Get(ReadOptions(), key, &value);
      if (status.ok()) return {200, value};
      if (status.IsNotFound()) return {404, "no such key"};
    } else if (method == "PUT") {
      status = db->Put(WriteOptions(), key, body);
      if (status.ok()) return {201, ""};
    } else {
      return {405, ""};
    }
    return {500, status.ToString()};
  });
}

void Require(bool done, const char* what) {
  if (!done) {
    std::perror(what);
    std::exit(1);
  }
}

void Serve(DB* db, int socket) {
  FILE* stream = fdopen(socket, "r+");
  Require(stream != nullptr, "fdopen");
  char line[1024], method[16] = "", path[1024] = "/";
  size_t length = 0;
  if (fgets(line, sizeof(line), stream)) std::sscanf(line, "%15s %1023s", method, path);
  while (fgets(line, sizeof(line), stream) && std::strlen(line) > 2) {
    if (strncasecmp(line, "content-length:", 15) == 0) length = std::stoul(line + 15);
  }
  std::string body(length, '\0');
  Require(fread(body.data(), 1, length, stream) == length, "read");
  auto [status, answer] = Handle(db, method, path, body).get();
  std::fseek(stream, 0, SEEK_CUR);
  std::fprintf(stream, "HTTP/1.1 %d -\r\nContent-Length: %zu\r\n\r\n", status, answer.size());
  fwrite(answer.data(), 1, answer.size(), stream);
  fclose(stream);
}

int main(int argc, char** argv) {
  Options options;
  options.create_if_missing = true;
  std::unique_ptr<DB> db;
  Check(DB::Open(options, argc > 1 ? argv[1] : "/tmp/rocksdb-web", &db));
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* name = reinterpret_cast<sockaddr*>(&address);
  Require(bind(listener, name, size) == 0, "bind");
  Require(listen(listener, 16) == 0, "listen");
  Require(getsockname(listener, name, &size) == 0, "getsockname");
  const std::string requests[] = {
      "PUT /greeting HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
      "GET /greeting HTTP/1.1\r\n\r\n",
      "GET /nothing HTTP/1.1\r\n\r\n",
  };
  std::thread server([&] {
    for (size_t served = 0; served < std::size(requests); served++) {
      Serve(db.get(), accept(listener, nullptr, nullptr));
    }
  });
  for (const std::string& request : requests) {
    int client = socket(AF_INET, SOCK_STREAM, 0);
    Require(connect(client, name, size) == 0, "connect");
    Require(write(client, request.data(), request.size()) > 0, "write");
    std::string answer;
    char bytes[1024];
    ssize_t count;
    while ((count = read(client, bytes, sizeof(bytes))) > 0) answer.append(bytes, count);
    close(client);
    std::cout << answer.substr(9, 4) << answer.substr(answer.find("\r\n\r\n") + 4) << "\n";
  }
  server.join();
  close(listener);
  Check(db->Close());
}
