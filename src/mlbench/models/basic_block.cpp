#include "mlbench/models/basic_block.h"

namespace mlbench::models {

namespace {

Chain& convolve(Chain& chain, const BasicBlock& block, const char* name, int64_t kernel, int64_t stride) {
  return (chain.*block.convolution)(block.name + name, block.channels, kernel, stride);
}

void project(Chain& chain, const BasicBlock& block) {
  convolve(chain, block, ".shortcut.conv", 1, block.stride);
  if (block.shortcut == BasicBlock::Shortcut::kNormalisedProjection) chain.batch_norm2d(block.name + ".shortcut.bn");
}

}  // namespace

void add_block_v1(Chain& chain, const BasicBlock& block) {
  const Chain::Part projection = [&](Chain& part) { project(part, block); };
  chain.residual(
      [&](Chain& body) {
        convolve(body, block, ".conv1", 3, block.stride).batch_norm2d(block.name + ".bn1").activation("relu");
        convolve(body, block, ".conv2", 3, 1).batch_norm2d(block.name + ".bn2");
      },
      block.shortcut == BasicBlock::Shortcut::kIdentity ? Chain::Part() : projection);
  chain.activation("relu");
}

void add_block_v2(Chain& chain, const BasicBlock& block) {
  const auto activate = [&](Chain& part) { part.batch_norm2d(block.name + ".bn1").activation("relu"); };
  const auto transform = [&](Chain& part) {
    convolve(part, block, ".conv1", 3, block.stride).batch_norm2d(block.name + ".bn2").activation("relu");
    convolve(part, block, ".conv2", 3, 1);
  };
  if (block.shortcut == BasicBlock::Shortcut::kIdentity) {
    chain.residual([&](Chain& body) {
      activate(body);
      transform(body);
    });
  } else {
    activate(chain);
    chain.residual(transform, [&](Chain& part) { project(part, block); });
  }
}

}  // namespace mlbench::models
