/* OpenCL. The names __wrap_NAME and __real_NAME are the linker's. */
#include "backend/opencl/device.h"
#include "plant.h"

/* The code that drivers return if a device is lost or full. */
#define FAILURE CL_OUT_OF_RESOURCES

/* Calls that return their code. */
#define CODE_CALL(kind, name, parameters, arguments)                                                                   \
    cl_int __real_##name parameters;                                                                                   \
    cl_int __wrap_##name parameters;                                                                                   \
    cl_int __wrap_##name parameters {                                                                                  \
        return fault_strikes(kind, #name) ? FAILURE : __real_##name arguments;                                         \
    }

/* Calls that create an object, and those that release it. A release that fails has still released the object, since the
 * caller could do nothing about it. */
#define CREATE_CALL(type, name, parameters, arguments)                                                                 \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters {                                                                                    \
        type object = NULL;                                                                                            \
        if (fault_strikes(FAULT_OPENCL_SETUP, #name))                                                                  \
            *code = FAILURE;                                                                                           \
        else                                                                                                           \
            object = __real_##name arguments;                                                                          \
        fault_hold_object(object != NULL);                                                                             \
        return object;                                                                                                 \
    }

#define RELEASE_CALL(name, type)                                                                                       \
    cl_int __real_##name(type object);                                                                                 \
    cl_int __wrap_##name(type object);                                                                                 \
    cl_int __wrap_##name(type object) {                                                                                \
        const bool fails = fault_strikes(FAULT_OPENCL_SETUP, #name);                                                   \
        const cl_int code = __real_##name(object);                                                                     \
        fault_hold_object(code == CL_SUCCESS ? -1 : 0);                                                                \
        return fails ? FAILURE : code;                                                                                 \
    }

CODE_CALL(FAULT_OPENCL_SETUP, clGetPlatformIDs, (cl_uint room, cl_platform_id *platforms, cl_uint *count),
          (room, platforms, count))
CODE_CALL(FAULT_OPENCL_SETUP, clGetPlatformInfo,
          (cl_platform_id platform, cl_platform_info what, size_t room, void *value, size_t *size),
          (platform, what, room, value, size))
CODE_CALL(FAULT_OPENCL_SETUP, clGetDeviceIDs,
          (cl_platform_id platform, cl_device_type type, cl_uint room, cl_device_id *devices, cl_uint *count),
          (platform, type, room, devices, count))
CODE_CALL(FAULT_OPENCL_SETUP, clGetDeviceInfo,
          (cl_device_id device, cl_device_info what, size_t room, void *value, size_t *size),
          (device, what, room, value, size))
CODE_CALL(FAULT_OPENCL_SETUP, clBuildProgram,
          (cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
           void(CL_CALLBACK *notify)(cl_program, void *), void *user),
          (program, count, devices, options, notify, user))
CODE_CALL(FAULT_OPENCL_SETUP, clGetProgramBuildInfo,
          (cl_program program, cl_device_id device, cl_program_build_info what, size_t room, void *value, size_t *size),
          (program, device, what, room, value, size))
CODE_CALL(FAULT_OPENCL_SETUP, clGetProgramInfo,
          (cl_program program, cl_program_info what, size_t room, void *value, size_t *size),
          (program, what, room, value, size))
CODE_CALL(FAULT_OPENCL_SETUP, clGetKernelWorkGroupInfo,
          (cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what, size_t room, void *value,
           size_t *size),
          (kernel, device, what, room, value, size))
CODE_CALL(FAULT_OPENCL_WORK, clSetKernelArg, (cl_kernel kernel, cl_uint index, size_t size, const void *value),
          (kernel, index, size, value))
CODE_CALL(FAULT_OPENCL_WORK, clEnqueueNDRangeKernel,
          (cl_command_queue queue, cl_kernel kernel, cl_uint rank, const size_t *offset, const size_t *global,
           const size_t *local, cl_uint count, const cl_event *waits, cl_event *event),
          (queue, kernel, rank, offset, global, local, count, waits, event))
CODE_CALL(FAULT_OPENCL_WORK, clEnqueueReadBuffer,
          (cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t size, void *data,
           cl_uint count, const cl_event *waits, cl_event *event),
          (queue, memory, blocking, offset, size, data, count, waits, event))
CODE_CALL(FAULT_OPENCL_WORK, clEnqueueWriteBuffer,
          (cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t size, const void *data,
           cl_uint count, const cl_event *waits, cl_event *event),
          (queue, memory, blocking, offset, size, data, count, waits, event))
CODE_CALL(FAULT_OPENCL_WORK, clFlush, (cl_command_queue queue), (queue))
CODE_CALL(FAULT_OPENCL_WORK, clFinish, (cl_command_queue queue), (queue))

CREATE_CALL(cl_context, clCreateContext,
            (const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
             void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user, cl_int *code),
            (properties, count, devices, notify, user, code))
CREATE_CALL(cl_command_queue, clCreateCommandQueue,
            (cl_context context, cl_device_id device, cl_command_queue_properties properties, cl_int *code),
            (context, device, properties, code))
CREATE_CALL(cl_program, clCreateProgramWithSource,
            (cl_context context, cl_uint count, const char **texts, const size_t *sizes, cl_int *code),
            (context, count, texts, sizes, code))
CREATE_CALL(cl_program, clCreateProgramWithBinary,
            (cl_context context, cl_uint count, const cl_device_id *devices, const size_t *sizes,
             const unsigned char **binaries, cl_int *statuses, cl_int *code),
            (context, count, devices, sizes, binaries, statuses, code))
CREATE_CALL(cl_kernel, clCreateKernel, (cl_program program, const char *name, cl_int *code), (program, name, code))
CREATE_CALL(cl_mem, clCreateBuffer, (cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *code),
            (context, flags, size, host, code))

RELEASE_CALL(clReleaseContext, cl_context)
RELEASE_CALL(clReleaseCommandQueue, cl_command_queue)
RELEASE_CALL(clReleaseProgram, cl_program)
RELEASE_CALL(clReleaseKernel, cl_kernel)
RELEASE_CALL(clReleaseMemObject, cl_mem)
