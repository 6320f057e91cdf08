#pragma once

// A master as the verbs talk to it.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mlbench/base/json.h"
#include "mlbench/cli/clusters/config.h"
#include "mlbench/cli/context.h"
#include "mlbench/net/http/client.h"

namespace mlbench::cli {

class PortForward;

class MasterClient {
 public:
  // `elsewhere`: its home is not to be looked into.
  MasterClient(std::string url, std::string token, std::string certificate, bool elsewhere);
  // Of a cluster in Kubernetes: as long as this lives, a way leads there.
  MasterClient(std::shared_ptr<PortForward> way, std::string token);
  const std::string& url() const { return url_; }
  bool elsewhere() const { return elsewhere_; }
  // `path` behind /api/v1. What the master refuses is a UserError with its words; CommError when it does not answer.
  Json get(const std::string& path) const;
  Json post(const std::string& path, const Json& body) const;
  Json put(const std::string& path, const Json& body) const;
  void remove(const std::string& path) const;
  std::string get_bytes(const std::string& path) const;
  // With its headers (header_of()).
  net::http::ClientResponse get_answer(const std::string& path) const;
  // Writes the answer to `file` as it comes; the file is there as a whole or not at all.
  void get_file(const std::string& path, const std::filesystem::path& file) const;

 private:
  net::http::ClientResponse send(net::http::ClientRequest request, const std::string& path) const;

  std::string url_, token_, certificate_;
  bool elsewhere_;
  std::unique_ptr<net::http::Client> client_;
  std::shared_ptr<PortForward> way_;
};

// Of a run, for a client's calls.
std::string path_of_run(const std::string& name);

// -u and --token-file.
void add_master_options(CLI::App& verb, Program& program);

// The header of that name, in any case; "" when absent.
std::string header_of(const net::http::ClientResponse& answer, std::string_view name);

// A URL as people write it ("host:port") as it is used.
std::string whole_url(std::string given);

// The one of -u or the chosen cluster, or else the one that serves this home; empty when there is neither.
std::optional<MasterClient> find_master(const Context& context);
// The same; UserError when there is none.
MasterClient the_master(const Context& context);
// Only the one of -u, or else that of the chosen cluster (clusters/config.h); clusters of hosts and of Slurm have none.
std::optional<MasterClient> given_master(const Context& context);
// UserError where it is not complete, or its master cannot be known.
std::optional<MasterClient> master_of(const std::string& name, const Cluster& cluster);

}  // namespace mlbench::cli
