#pragma once

// The client by which verbs talk to a master, and how they find one.

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
  // `elsewhere` says that the master's home must not be read from here.
  MasterClient(std::string url, std::string token, std::string certificate, bool elsewhere);
  // A master of a cluster in Kubernetes, which `way` leads to as long as this object lives.
  MasterClient(std::shared_ptr<PortForward> way, std::string token);
  const std::string& url() const { return url_; }
  bool elsewhere() const { return elsewhere_; }
  // These take paths behind /api/v1. They throw UserError, with the master's words, for what it refuses, and CommError
  // where it does not answer or fails.
  Json get(const std::string& path) const;
  Json post(const std::string& path, const Json& body) const;
  Json put(const std::string& path, const Json& body) const;
  void remove(const std::string& path) const;
  std::string get_bytes(const std::string& path) const;
  // The answer with its headers, which header_of() reads.
  net::http::ClientResponse get_answer(const std::string& path) const;
  // Writes the answer to `file` as it comes. At any moment, `file` is complete or unchanged.
  void get_file(const std::string& path, const std::filesystem::path& file) const;

 private:
  net::http::ClientResponse send(net::http::ClientRequest request, const std::string& path) const;

  std::string url_, token_, certificate_;
  bool elsewhere_;
  std::unique_ptr<net::http::Client> client_;
  std::shared_ptr<PortForward> way_;
};

// The path of a run for the calls of MasterClient: "/runs/NAME".
std::string path_of_run(const std::string& name);

// Adds the options -u and --token-file.
void add_master_options(CLI::App& verb, Program& program);

// The value of the header `name`, whose case does not matter; "" when absent.
std::string header_of(const net::http::ClientResponse& answer, std::string_view name);

// A URL as people write it ("host:port") with its scheme, and without slashes at its end.
std::string whole_url(std::string given);

// The master of given_master(), or else the one that serves this home; empty when there is neither.
std::optional<MasterClient> find_master(const Context& context);
// Returns the master that find_master() finds. Throws UserError when there is none.
MasterClient the_master(const Context& context);
// The master of -u, or else that of the chosen cluster (clusters/config.h); empty when there is neither.
std::optional<MasterClient> given_master(const Context& context);
// The master of the cluster `name`; empty for clusters of hosts and of Slurm, which have none. Throws UserError where
// the cluster is not complete, its master does not run, or MLBench's own command line made it.
std::optional<MasterClient> master_of(const std::string& name, const Cluster& cluster);

}  // namespace mlbench::cli
