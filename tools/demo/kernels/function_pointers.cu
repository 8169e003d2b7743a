// Virtual functions of objects that a kernel made, one of which waits at a barrier; a table of
// functions in device memory; a function pointer that the host read and gave to a kernel.
#include "check.h"

#include <cmath>
#include <vector>

constexpr int kShapes = 96;

class Shape {
 public:
  __host__ __device__ virtual ~Shape() {}
  __host__ __device__ virtual float area(float scale) const = 0;
  __host__ __device__ virtual int corners() const { return 0; }
};

class Rectangle : public Shape {
 public:
  __host__ __device__ Rectangle(float a, float b) : a_(a), b_(b) {}
  __host__ __device__ float area(float scale) const override { return a_ * b_ * scale; }
  __host__ __device__ int corners() const override { return 4; }

 protected:
  float a_, b_;
};

class Triangle : public Rectangle {
 public:
  using Rectangle::Rectangle;
  __host__ __device__ float area(float scale) const override {
    return Rectangle::area(scale) * 0.5f;
  }
  __host__ __device__ int corners() const override { return 3; }
};

class Circle : public Shape {
 public:
  __host__ __device__ explicit Circle(float radius) : radius_(radius) {}
  __host__ __device__ float area(float scale) const override {
    return 3.0f * radius_ * radius_ * scale;
  }

 private:
  float radius_;
};

__host__ __device__ Shape* make_shape(int i) {
  const float size = static_cast<float>(i + 1);
  if (i % 3 == 0) return new Rectangle(size, 2.0f);
  if (i % 3 == 1) return new Triangle(size, 4.0f);
  return new Circle(size);
}

__global__ void make(Shape** shapes) {
  shapes[threadIdx.x] = make_shape(threadIdx.x);
}
__global__ void measure(Shape* const* shapes, float* areas, int* corners) {
  const Shape* shape = shapes[threadIdx.x];
  areas[threadIdx.x] = shape->area(2.0f);
  corners[threadIdx.x] = shape->corners();
}
__global__ void destroy(Shape** shapes) {
  delete shapes[threadIdx.x];
}

/// What a block does with its values; the sum needs the threads to wait for one another.
class Step {
 public:
  __device__ virtual int run(int value) = 0;
};
class Negate : public Step {
 public:
  __device__ int run(int value) override { return -value; }
};
class SumOfBlock : public Step {
 public:
  __device__ int run(int value) override {
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, value);
    __syncthreads();
    const int total = sum;
    __syncthreads();
    return total;
  }
};

__global__ void run_steps(int* out) {
  Negate negate;
  SumOfBlock sum;
  Step* steps[2] = {&negate, &sum};
  int value = threadIdx.x;
  for (int round = 0; round < 3; ++round) value = steps[(round + blockIdx.x) % 2]->run(value);
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

using Operation = int (*)(int, int);
__host__ __device__ int add(int a, int b) { return a + b; }
__host__ __device__ int subtract(int a, int b) { return a - b; }
__host__ __device__ int multiply(int a, int b) { return a * b; }
__device__ Operation operations[3] = {add, subtract, multiply};
__device__ Operation chosen = subtract;

__global__ void apply_table(int* out) {
  out[threadIdx.x] = operations[threadIdx.x % 3](threadIdx.x, 7);
}
__global__ void apply(Operation operation, int* out) {
  out[threadIdx.x] = operation(threadIdx.x, 5);
}

template <class T>
std::vector<T> from_device(const T* from, int count) {
  std::vector<T> out(count);
  check(cudaMemcpy(out.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost), "copying back");
  return out;
}

int failures = 0;
template <class T>
void expect_equal(T got, T expected, const char* what, int index) {
  if (got == expected || failures++ > 0) return;
  std::fprintf(stderr, "function_pointers: %s %d is %g, expected %g\n", what, index,
               static_cast<double>(got), static_cast<double>(expected));
}

void check_shapes() {
  Shape** shapes = nullptr;
  float* areas = nullptr;
  int* corners = nullptr;
  check(cudaMalloc(&shapes, kShapes * sizeof(Shape*)), "cudaMalloc");
  check(cudaMalloc(&areas, kShapes * sizeof(float)), "cudaMalloc");
  check(cudaMalloc(&corners, kShapes * sizeof(int)), "cudaMalloc");
  make<<<1, kShapes>>>(shapes);
  measure<<<1, kShapes>>>(shapes, areas, corners);
  destroy<<<1, kShapes>>>(shapes);
  check(cudaGetLastError(), "launch");
  const std::vector<float> got_areas = from_device(areas, kShapes);
  const std::vector<int> got_corners = from_device(corners, kShapes);
  for (int i = 0; i < kShapes; ++i) {
    Shape* expected = make_shape(i);
    expect_equal(got_areas[i], expected->area(2.0f), "area of shape", i);
    expect_equal(got_corners[i], expected->corners(), "corners of shape", i);
    delete expected;
  }
}

void check_steps() {
  const int threads = 64;
  int* out = nullptr;
  check(cudaMalloc(&out, 2 * threads * sizeof(int)), "cudaMalloc");
  run_steps<<<2, threads>>>(out);
  check(cudaGetLastError(), "launch");
  const std::vector<int> got = from_device(out, 2 * threads);
  const int sum = threads * (threads - 1) / 2;
  for (int t = 0; t < threads; ++t) {
    expect_equal(got[t], sum, "steps of thread", t);  // -t, summed, negated
    expect_equal(got[threads + t], -sum * threads, "steps of the second block's thread", t);
  }
}

void check_operations() {
  int* out = nullptr;
  check(cudaMalloc(&out, 32 * sizeof(int)), "cudaMalloc");
  apply_table<<<1, 32>>>(out);
  const std::vector<int> by_table = from_device(out, 32);
  Operation on_device = nullptr;
  check(cudaMemcpyFromSymbol(&on_device, chosen, sizeof on_device), "cudaMemcpyFromSymbol");
  apply<<<1, 32>>>(on_device, out);
  const std::vector<int> by_pointer = from_device(out, 32);
  const Operation on_host[3] = {add, subtract, multiply};
  for (int t = 0; t < 32; ++t) {
    expect_equal(by_table[t], on_host[t % 3](t, 7), "result by table of thread", t);
    expect_equal(by_pointer[t], subtract(t, 5), "result by pointer of thread", t);
  }
}

/// Last: nothing runs in this context afterwards.
void check_null() {
  int* out = nullptr;
  check(cudaMalloc(&out, 32 * sizeof(int)), "cudaMalloc");
  apply<<<1, 32>>>(nullptr, out);
  const cudaError_t error = cudaDeviceSynchronize();
  if (error == cudaSuccess || cudaMalloc(&out, 4) != error) {
    std::fprintf(stderr, "function_pointers: a null pointer's call gave \"%s\"\n",
                 cudaGetErrorString(error));
    ++failures;
  }
}

int main() {
  check_shapes();
  check_steps();
  check_operations();
  check_null();
  if (failures != 0) return 1;
  std::printf(
      "function_pointers: virtual functions, a table of functions and a pointer from the host gave "
      "what the CPU gives\n");
  return 0;
}
