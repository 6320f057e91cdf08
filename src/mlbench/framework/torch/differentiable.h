#pragma once

// Operations with a backward pass of their own, as nodes of autograd's graph.

#include <ATen/ATen.h>
#include <torch/autograd.h>

#include <functional>
#include <utility>
#include <vector>

namespace mlbench::framework::torch_framework {

// Gradients of an operation's inputs from that of its output; undefined where not wanted. Leaves the gradients of
// parameters in the gradient buffer on the way.
using Backward =
    std::function<std::vector<at::Tensor>(const at::Tensor& output_gradient, const std::vector<bool>& wanted)>;

// An operation with a backward pass of its own: `forward` runs out of autograd's sight, `backward` is one node of its
// graph. The last of `inputs` is an anchor, which wants a gradient and gets none: it brings the node into the graph
// where the inputs are constants (the node yields gradients of parameters all the same).
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
    // Taken out, so that what the closure holds is freed as soon as it has been used.
    const Backward backward = std::move(static_cast<Saved&>(*saved).backward);
    std::vector<bool> wanted(static_cast<size_t>(context->saved_data["inputs"].toInt()));
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = context->needs_input_grad(i);
    std::vector<at::Tensor> found = backward(gradients[0], wanted);
    found.resize(wanted.size() + 3);  // anchor, forward, backward: none
    return found;
  }
};

template <typename Forward>
at::Tensor differentiable_of_many(std::vector<at::Tensor> inputs, const Forward& forward, Backward backward) {
  if (!at::GradMode::is_enabled()) return forward();
  inputs.push_back(at::empty({0}).requires_grad_(true));
  return Custom::apply(at::TensorList(inputs), std::function<at::Tensor()>(forward), std::move(backward));
}

// Of one input: `backward(output_gradient, input_wanted)` gives its gradient.
template <typename Forward, typename OneBackward>
at::Tensor differentiable(const at::Tensor& input, const Forward& forward, OneBackward backward) {
  return differentiable_of_many(
      {input}, forward, [backward = std::move(backward)](const at::Tensor& dy, const std::vector<bool>& wanted) {
        return std::vector<at::Tensor>{backward(dy, wanted[0])};
      });
}

}  // namespace mlbench::framework::torch_framework
