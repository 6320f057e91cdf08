#include "mlbench/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <cstdlib>
#include <memory>

namespace mlbench {

void set_up_logging(const std::string& who) {
  const char* no_color = std::getenv("NO_COLOR");
  const bool plain = no_color != nullptr && *no_color != '\0';
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(plain ? spdlog::color_mode::never
                                                                         : spdlog::color_mode::automatic);
  auto logger = std::make_shared<spdlog::logger>(who, sink);
  logger->set_pattern("%H:%M:%S.%e %^%l%$ [%n] %v");
  const char* level = std::getenv("MLBENCH_LOG");
  logger->set_level(level != nullptr ? spdlog::level::from_str(level) : spdlog::level::info);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace mlbench
