#pragma once

// Operations with a backward pass of their own, as nodes of autograd's graph.

#include <ATen/ATen.h>
#include <torch/autograd.h>

#include <functional>
#include <utility>
#include <vector>

namespace mlbench::framework::torch_framework {

// Returns the gradients of an operation's inputs from that of its output; a gradient that is not `wanted` may be
// undefined. On the way, the function stores the gradients of parameters in the gradient buffer.
using Backward =
    std::function<std::vector<at::Tensor>(const at::Tensor& output_gradient, const std::vector<bool>& wanted)>;

// An operation with a backward pass of its own. `forward` runs out of autograd's sight, and `backward` is one node of
// autograd's graph. The last of `inputs` is an anchor, a tensor that requires a gradient and gets none. The anchor
// brings the node into the graph where all other inputs are constants, since the node's gradients of parameters are
// needed there, too.
struct Custom : torch::autograd::Function<Custom> {
  struct Saved : torch::CustomClassHolder {
    explicit Saved(Backward f) : backward(std::move(f)) {}
    Backward backward;
  };

  static at::Tensor forward(torch::autograd::AutogradContext* context, at::TensorList inputs,
                            const std::function<at::Tensor()>& forward, Backward backward) {
    context->saved_data["saved"] = c10::IValue::make_capsule(c10::make_intrusive<Saved>(std::move(backward)));
    context->saved_data["inputs"] = static_cast<int64_t>(inputs.size()) - 1;
    return forward();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->saved_data["saved"].toCapsule();
    // The function is moved out, so that the tensors that it holds are freed as soon as they have been used.
    const Backward backward = std::move(static_cast<Saved&>(*saved).backward);
    std::vector<bool> wanted(static_cast<size_t>(context->saved_data["inputs"].toInt()));
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = context->needs_input_grad(i);
    std::vector<at::Tensor> found = backward(gradients[0], wanted);
    found.resize(wanted.size() + 3);  // the anchor and the arguments `forward` and `backward` have no gradient
    return found;
  }
};

// The output of `forward()`. Where autograd records, `backward` becomes the operation's node in autograd's graph.
template <typename Forward>
at::Tensor differentiable_of_many(std::vector<at::Tensor> inputs, const Forward& forward, Backward backward) {
  if (!at::GradMode::is_enabled()) return forward();
  inputs.push_back(at::empty({0}).requires_grad_(true));
  return Custom::apply(at::TensorList(inputs), std::function<at::Tensor()>(forward), std::move(backward));
}

// Differentiates an operation with one input: `backward(output_gradient, input_wanted)` returns the input's gradient.
template <typename Forward, typename OneBackward>
at::Tensor differentiable(const at::Tensor& input, const Forward& forward, OneBackward backward) {
  return differentiable_of_many(
      {input}, forward, [backward = std::move(backward)](const at::Tensor& dy, const std::vector<bool>& wanted) {
        return std::vector<at::Tensor>{backward(dy, wanted[0])};
      });
}

}  // namespace mlbench::framework::torch_framework
