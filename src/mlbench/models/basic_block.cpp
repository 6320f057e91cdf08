#include "mlbench/models/basic_block.h"

namespace mlbench::models {

namespace {

Chain& normalise(Chain& chain, const BasicBlock& block, const char* name) {
  return chain.batch_norm2d(block.name + name, block.norm_momentum);
}

Chain& convolve(Chain& chain, const BasicBlock& block, const char* name, int64_t kernel, int64_t stride) {
  return (chain.*block.convolution)(block.name + name, block.channels, kernel, stride);
}

void project(Chain& chain, const BasicBlock& block) {
  convolve(chain, block, ".shortcut.conv", 1, block.stride);
  if (block.shortcut == BasicBlock::Shortcut::kNormalisedProjection) normalise(chain, block, ".shortcut.bn");
}

}  // namespace

void add_block_v1(Chain& chain, const BasicBlock& block) {
  const Chain::Part projection = [&](Chain& part) { project(part, block); };
  chain.residual(
      [&](Chain& body) {
        normalise(convolve(body, block, ".conv1", 3, block.stride), block, ".bn1").activation("relu");
        normalise(convolve(body, block, ".conv2", 3, 1), block, ".bn2");
      },
      block.shortcut == BasicBlock::Shortcut::kIdentity ? Chain::Part() : projection);
  chain.activation("relu");
}

void add_block_v2(Chain& chain, const BasicBlock& block) {
  const auto activate = [&](Chain& part) { normalise(part, block, ".bn1").activation("relu"); };
  const auto transform = [&](Chain& part) {
    normalise(convolve(part, block, ".conv1", 3, block.stride), block, ".bn2").activation("relu");
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
