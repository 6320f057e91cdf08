#include "mlbench/objects/answers.h"

#include <expat.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/to_number.h"

namespace mlbench::objects {

namespace {

// Called at the end of each element, with the names from the root on and the text in it: "Error/Code".
using OnElement = std::function<void(std::string_view path, const std::string& text)>;

struct XmlReader {
  XML_Parser parser;
  const OnElement& on_element;
  std::string path, text;
  size_t depth = 0;
  std::string refused;           // why it stopped
  std::exception_ptr exception;  // none may pass through expat

  void stop(std::string reason) {
    refused = std::move(reason);
    XML_StopParser(parser, XML_FALSE);
  }
  template <typename Action>
  void guarded(const Action& action) {
    try {
      action();
    } catch (...) {
      exception = std::current_exception();
      XML_StopParser(parser, XML_FALSE);
    }
  }
};

XmlReader& reader_of(void* self) { return *static_cast<XmlReader*>(self); }

// Why the text is no XML that is read here; "" where it is. Declarations of a document type are refused, for they may
// define entities.
std::string read_xml(std::string_view xml, const OnElement& on_element) {
  const std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)> parser(XML_ParserCreate("UTF-8"), XML_ParserFree);
  if (parser == nullptr) throw IoError("out of memory");
  XmlReader reader{parser.get(), on_element, {}, {}, 0, {}, nullptr};
  XML_SetUserData(parser.get(), &reader);
  XML_SetStartDoctypeDeclHandler(parser.get(), [](void* self, const char*, const char*, const char*, int) {
    reader_of(self).stop("it declares a document type");
  });
  XML_SetElementHandler(
      parser.get(),
      [](void* self, const char* name, const char**) {
        XmlReader& reader = reader_of(self);
        if (++reader.depth > kDeepestNesting) return reader.stop("it is nested too deep");
        reader.guarded([&] {
          if (!reader.path.empty()) reader.path += '/';
          reader.path += name;
          reader.text.clear();
        });
      },
      [](void* self, const char* name) {
        XmlReader& reader = reader_of(self);
        if (reader.exception || !reader.refused.empty()) return;
        reader.guarded([&] {
          reader.on_element(reader.path, reader.text);
          const size_t parent = reader.path.size() - std::string_view(name).size();
          reader.path.resize(parent == 0 ? 0 : parent - 1);
          reader.text.clear();
          --reader.depth;
        });
      });
  XML_SetCharacterDataHandler(parser.get(), [](void* self, const char* text, int length) {
    XmlReader& reader = reader_of(self);
    reader.guarded([&] { reader.text.append(text, static_cast<size_t>(length)); });
  });
  const XML_Status status = XML_Parse(parser.get(), xml.data(), static_cast<int>(xml.size()), XML_TRUE);
  if (reader.exception) std::rethrow_exception(reader.exception);
  if (!reader.refused.empty()) return reader.refused;
  if (status == XML_STATUS_OK) return "";
  return fmt::format("line {}: {}", XML_GetCurrentLineNumber(parser.get()),
                     XML_ErrorString(XML_GetErrorCode(parser.get())));
}

// An ETag goes into headers, so it has visible characters alone.
std::string etag_of(const std::string& where, std::string_view text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  const bool plain = std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f && c != '"'; });
  if (!plain || text.size() > 200) throw UserError(fmt::format("{}: an ETag that is none", where));
  return std::string(text);
}

}  // namespace

ListPage parse_list_page(const std::string& where, std::string_view xml) {
  if (xml.size() > inputs::kObjectList.most_bytes) refuse_size(where, xml.size(), inputs::kObjectList);
  ListPage page;
  Object object;
  bool is_list = false, truncated = false;
  const std::string wrong = read_xml(xml, [&](std::string_view path, const std::string& text) {
    constexpr std::string_view kContents = "ListBucketResult/Contents";
    if (path == kContents) {
      page.objects.push_back(std::exchange(object, {}));
    } else if (path == "ListBucketResult/Contents/Key") {
      object.key = text;
    } else if (path == "ListBucketResult/Contents/ETag") {
      object.etag = etag_of(where, text);
    } else if (path == "ListBucketResult/Contents/Size") {
      object.bytes = to_number<int64_t>(text).value_or(-1);
      if (object.bytes < 0) throw UserError(fmt::format("{}: an object without a size", where));
    } else if (path == "ListBucketResult/IsTruncated") {
      truncated = text == "true";
    } else if (path == "ListBucketResult/NextContinuationToken") {
      page.next = text;
    } else if (path == "ListBucketResult") {
      is_list = true;
    }
  });
  if (!wrong.empty()) throw UserError(fmt::format("{}: the list is not XML that is read here: {}", where, wrong));
  if (!is_list) throw UserError(fmt::format("{}: the answer is no list of objects: is this an S3 endpoint?", where));
  if (truncated != !page.next.empty()) {
    throw UserError(fmt::format("{}: a list that goes on without saying where; expected ListObjectsV2", where));
  }
  return page;
}

Refusal parse_refusal(std::string_view xml) {
  Refusal refusal;
  if (xml.size() > inputs::kObjectList.most_bytes) return refusal;
  const std::string wrong = read_xml(xml, [&](std::string_view path, const std::string& text) {
    if (path == "Error/Code") refusal.code = text;
    if (path == "Error/Message") refusal.message = text;
    if (path == "Error/Region") refusal.region = text;
  });
  return wrong.empty() ? refusal : Refusal{};
}

}  // namespace mlbench::objects
