// Workers for tests of the command line: each is the program of a FRAMEWORK. It prints a catalog, in which one backend
// is not available, and says that it computes convolutions slower in bfloat16, products faster. Otherwise it runs the
// fake worker of tests/multiproc (FAKE_STEPS, FAKE_STEP_MS, FAKE_FAULT).

#include <unistd.h>

#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--catalog") == 0) {
    std::puts(R"({"build_id": "fake",
                  "frameworks": [{"name": ")" FRAMEWORK R"(", "available": true, "reason": "",
                    "precisions": ["float32", "tf32", "bf16", "fp16"]}],
                  "backends": [{"name": "gloo", "available": true, "reason": "", "about": "of mlbench",
                    "tunables": ["links", "socket_buffer", "interface"]},
                               {"name": "nccl", "available": false, "reason": "built without CUDA"}],
                  "optimizers": [{"name": "centralized_sgd", "rule": "sgd", "compression": "none",
                                  "pattern": "centralized",
                                  "also": [{"name": "CentralizedSGD"}, {"name": "another"}]}],
                  "coders": [{"name": "none", "sends": "all", "source": ""},
                             {"name": "top_k", "sends": "the largest", "source": "Stich et al. 2018"}]})");
    return 0;
  }
  if (argc == 3 && std::strcmp(argv[1], "--bfloat16-speed") == 0) {
    std::puts(R"([{"work": "convolutions", "verdict": "slower", "ratio": 0.6, "low": 0.5, "high": 0.7},
                  {"work": "products", "verdict": "faster", "ratio": 2, "low": 1.9, "high": 2.1}])");
    return 0;
  }
  execv(FAKE_WORKER, argv);
  std::perror(FAKE_WORKER);
  return 127;
}
