// Runs a model on an input of one value everywhere: consumer MODEL
#include <halfeven/halfeven.hpp>
#include <halfeven/tensor_io.hpp>

#include <iostream>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const halfeven::Model model = halfeven::Model::load(argv[1]);
    const halfeven::ValueInfo input = model.inputs().at(0);
    halfeven::Shape shape = {1, 3, 48, 192};
    const std::vector<float> values(halfeven::element_count(shape), 0.25F);
    const auto tensor = halfeven::Tensor::of<float>(halfeven::DType::float32, shape, values);
    for (const halfeven::Tensor& output : halfeven::interpret(model, {{input.name, tensor}})) {
      std::cout << halfeven::hash(output) << '\n';
    }
  } catch (const halfeven::Error& error) {
    std::cerr << error.what() << '\n';
    return static_cast<int>(error.code());
  }
}
