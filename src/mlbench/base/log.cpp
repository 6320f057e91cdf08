#include "mlbench/base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include "mlbench/base/own_variables.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/printable.h"

namespace mlbench {

namespace {

class PrintableText final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/, spdlog::memory_buf_t& out) override {
    const std::string text = printable_lines({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<PrintableText>(); }
};

}  // namespace

void set_up_logging(const std::string& who) {
  const bool plain = environment_variable("NO_COLOR").has_value();
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(plain ? spdlog::color_mode::never
                                                                          : spdlog::color_mode::automatic);
  auto logger = std::make_shared<spdlog::logger>(who, sink);
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PrintableText>('*').set_pattern("%H:%M:%S.%e %^%l%$ [%n] %*");
  logger->set_formatter(std::move(formatter));
  constexpr std::string_view kLevels[] = {"trace", "debug", "info", "warn", "error", "off"};
  const std::string level = environment_variable(variables::kLog).value_or("info");
  const bool known = std::find(std::begin(kLevels), std::end(kLevels), level) != std::end(kLevels);
  logger->set_level(known ? spdlog::level::from_str(level) : spdlog::level::info);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  if (known) return;
  spdlog::warn("{}={}: expected trace, debug, info, warn, error or off; info is taken", variables::kLog, level);
}

}  // namespace mlbench
