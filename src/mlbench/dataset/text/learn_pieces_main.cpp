// mlbench-pieces: SentencePiece in a process of its own (pieces.h says why).
//   mlbench-pieces learn WORDS SIZE MODEL    "word TAB count" lines to MODEL; the pieces go to standard output
//   mlbench-pieces encode MODEL              lines of standard input to lines of ids

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <fstream>
#include <functional>
#include <iostream>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace {

int fail(const std::string& text) {
  std::cerr << text << '\n';
  return 2;
}

constexpr size_t kNotCharacters = 5;  // the four special pieces, and the mark before a word

// The merges alone decide what a piece may hold, as in subword-nmt: scripts, digits and signs have no borders beside
// those of words. Texts are not normalised; characters that occur are pieces.
std::unordered_map<std::string, std::string> training_options(const std::string& size) {
  return {{"model_type", "bpe"},
          {"vocab_size", size},
          {"hard_vocab_limit", "false"},
          {"input_format", "tsv"},
          {"character_coverage", "1.0"},
          {"normalization_rule_name", "identity"},
          {"split_by_unicode_script", "false"},
          {"split_by_number", "false"},
          {"max_sentencepiece_length", "64"},
          {"pad_id", "0"},
          {"unk_id", "1"},
          {"bos_id", "2"},
          {"eos_id", "3"},
          {"num_threads", "1"},
          {"minloglevel", "2"}};
}

// Lines "WORD\tCOUNT".
class WordFile : public sentencepiece::SentenceIterator {
 public:
  explicit WordFile(const std::string& path) : file_(path) { read(); }
  bool done() const override { return done_; }
  void Next() override { read(); }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

  // Different characters of the words that were read; each is a piece.
  size_t characters() const { return characters_.size(); }

 private:
  void read() {
    done_ = !std::getline(file_, line_);
    const std::string_view word = std::string_view(line_).substr(0, line_.find('\t'));
    const auto continues = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; };
    for (size_t at = 0; at < word.size();) {
      size_t end = at + 1;
      while (end < word.size() && continues(word[end])) ++end;
      characters_.emplace(word.substr(at, end - at));
      at = end;
    }
  }

  std::ifstream file_;
  std::set<std::string, std::less<>> characters_;
  std::string line_;
  bool done_ = false;
};

int learn(const std::string& words, const std::string& size, const std::string& model) {
  WordFile file(words);
  if (file.done()) return fail(words + " holds no words");
  std::string bytes;
  const auto status = sentencepiece::SentencePieceTrainer::Train(training_options(size), &file, &bytes);
  // SentencePiece's own words would advise options of its program.
  const size_t least = file.characters() + kNotCharacters;
  if (!status.ok() && least > std::stoull(size)) {
    return fail("the words have " + std::to_string(file.characters()) + " different characters; expected at least " +
                std::to_string(least) + " pieces");
  }
  if (!status.ok()) return fail("SentencePiece: " + status.ToString());
  std::ofstream out(model, std::ios::binary);
  out << bytes;
  out.close();
  if (!out) return fail("cannot write " + model);
  sentencepiece::SentencePieceProcessor processor;
  if (const auto loaded = processor.LoadFromSerializedProto(bytes); !loaded.ok()) return fail(loaded.ToString());
  for (int id = 0; id < processor.GetPieceSize(); ++id) std::cout << processor.IdToPiece(id) << '\n';
  std::cout.flush();
  return std::cout ? 0 : fail("cannot write the pieces");
}

int encode(const std::string& model) {
  sentencepiece::SentencePieceProcessor processor;
  if (const auto status = processor.Load(model); !status.ok()) return fail(status.ToString());
  std::vector<int> ids;
  for (std::string line; std::getline(std::cin, line);) {
    if (const auto status = processor.Encode(line, &ids); !status.ok()) return fail(status.ToString());
    for (size_t i = 0; i < ids.size(); ++i) std::cout << (i > 0 ? " " : "") << ids[i];
    std::cout << '\n';
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 4 && arguments[0] == "learn") return learn(arguments[1], arguments[2], arguments[3]);
  if (arguments.size() == 2 && arguments[0] == "encode") return encode(arguments[1]);
  return fail("usage: mlbench-pieces learn WORDS SIZE MODEL | encode MODEL");
}
