#pragma once

// What S3-compatible stores answer in XML.

#include <string>
#include <string_view>
#include <vector>

#include "mlbench/objects/object_store.h"

namespace mlbench::objects {

// A page of ListObjectsV2.
struct ListPage {
  std::vector<Object> objects;  // with their whole keys, which check_key() has still to see; ETags without quotes
  std::string next;             // the token that continues the list; "" at its end
};
// Throws UserError, naming `where`, for what is no such page.
ListPage parse_list_page(const std::string& where, std::string_view xml);

// Why a store refuses.
struct Refusal {
  std::string code;     // "NoSuchKey"; "" where the text is no such answer
  std::string message;  // as the store says it
  std::string region = {};
};
Refusal parse_refusal(std::string_view xml);

}  // namespace mlbench::objects
