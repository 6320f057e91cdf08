#include "mlbench/spec/variables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"

namespace mlbench::spec {

namespace {

constexpr size_t kMostValueBytes = 100'000;  // one string of an environment holds 128 KiB
constexpr std::array<std::string_view, 4> kSecretWords = {"KEY", "KEYS", "AUTH", "PASS"};
constexpr std::array<std::string_view, 12> kSecretEnds = {"SECRET",      "SECRETS",    "TOKEN",         "PASSWORD",
                                                          "PASSWORDS",   "PASSWD",     "APIKEY",        "CREDENTIAL",
                                                          "CREDENTIALS", "PASSPHRASE", "AUTHORIZATION", "PRIVATEKEY"};

bool is_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; }

bool valid_name(std::string_view name) {
  return !name.empty() && is_letter(name.front()) && std::all_of(name.begin(), name.end(), [](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

}  // namespace

Variable parse_variable(const std::string& text) {
  const size_t sign = text.find('=');
  Variable variable{text.substr(0, sign), ValueFrom::kStarter, ""};
  if (!valid_name(variable.name) || text.find('\0') != std::string::npos) {
    throw UserError(fmt::format("--env '{}' is not NAME=VALUE, NAME=@FILE or NAME (letters, digits, '_', '-' and '.')",
                                text.substr(0, std::min<size_t>(sign, 80))));
  }
  if (sign == std::string::npos) return variable;
  variable.value = text.substr(sign + 1);
  variable.from = variable.value.starts_with('@') ? ValueFrom::kFile : ValueFrom::kText;
  if (variable.from == ValueFrom::kFile) variable.value.erase(0, 1);
  return variable;
}

bool looks_secret(std::string_view name) {
  std::string word;
  const auto secret = [&] {
    return std::find(kSecretWords.begin(), kSecretWords.end(), word) != kSecretWords.end() ||
           std::any_of(kSecretEnds.begin(), kSecretEnds.end(),
                       [&](std::string_view end) { return std::string_view(word).ends_with(end); });
  };
  for (const char c : name) {
    if (c >= 'a' && c <= 'z') {
      word += static_cast<char>(c - 'a' + 'A');
    } else if ((c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) {
      word += c;
    } else {
      if (secret()) return true;
      word.clear();
    }
  }
  return secret();
}

void check_variables(const std::vector<std::string>& variables) {
  for (const std::string& text : variables) {
    const Variable variable = parse_variable(text);
    const std::string& name = variable.name;
    if (variable.from == ValueFrom::kText && !variable.value.empty() && looks_secret(name)) {
      throw UserError(fmt::format(
          "--env {}=...: the name looks like that of a secret, and a value given like this lies in the run's "
          "folder: give --env {} (its value here, kept in memory) or --env {}=@FILE (read when the ranks "
          "start)",
          name, name, name));
    }
    if (variable.from == ValueFrom::kFile && !std::filesystem::path(variable.value).is_absolute()) {
      throw UserError(fmt::format("--env {}=@{}: the file is no absolute path", name, variable.value));
    }
  }
}

std::vector<std::string> variables_of(const RunSpec& run) {
  const Command* const command = command_of(run);
  return command == nullptr ? std::vector<std::string>() : command->environment;
}

std::vector<std::string> names_to_give(const RunSpec& run) {
  std::vector<std::string> names;
  for (const std::string& text : variables_of(run)) {
    if (const Variable variable = parse_variable(text); variable.from == ValueFrom::kStarter) {
      names.push_back(variable.name);
    }
  }
  return names;
}

std::vector<std::pair<std::string, std::string>> variable_values(const RunSpec& run) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const std::string& text : variables_of(run)) {
    Variable variable = parse_variable(text);
    if (variable.from == ValueFrom::kFile) {
      const std::string file = variable.value;
      variable.value = read_file(file);
      while (variable.value.ends_with('\n') || variable.value.ends_with('\r')) variable.value.pop_back();
      if (variable.value.size() > kMostValueBytes || variable.value.find('\0') != std::string::npos) {
        throw UserError(fmt::format("--env {}=@{}: the file holds no text of at most {} bytes", variable.name, file,
                                    kMostValueBytes));
      }
    } else if (variable.from == ValueFrom::kStarter) {
      const char* given = std::getenv(variable.name.c_str());
      if (given == nullptr) {
        throw UserError(
            fmt::format("the run needs the variable {} (--env {}), which is not set here: its value is "
                        "stored nowhere; set it, and start the run again",
                        variable.name, variable.name));
      }
      variable.value = given;
    }
    values.emplace_back(std::move(variable.name), std::move(variable.value));
  }
  return values;
}

}  // namespace mlbench::spec
