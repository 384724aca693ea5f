# Cross build for 64-bit Arm:
#   scripts/sysroot-aarch64.sh build/sysroot-aarch64
#   cmake -S . -B build/aarch64 -G Ninja --toolchain cmake/aarch64-linux-gnu.cmake
# The sysroot may lie elsewhere: -DKAIJU_SYSROOT=DIR. ctest runs the tests under qemu-aarch64 where that is installed.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

set(KAIJU_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/sysroot-aarch64
    CACHE PATH "arm64 libraries, filled by scripts/sysroot-aarch64.sh")
# CMake's own compiler checks read this file too.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES KAIJU_SYSROOT)
get_filename_component(sysroot ${KAIJU_SYSROOT} ABSOLUTE)
if(NOT EXISTS ${sysroot}/.complete)
  message(FATAL_ERROR "${sysroot} holds no finished arm64 sysroot; run scripts/sysroot-aarch64.sh ${sysroot}")
endif()

set(CMAKE_SYSROOT ${sysroot})
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

set(ENV{PKG_CONFIG_SYSROOT_DIR} ${sysroot})
set(ENV{PKG_CONFIG_LIBDIR} ${sysroot}/usr/lib/aarch64-linux-gnu/pkgconfig:${sysroot}/usr/share/pkgconfig)

# The linker follows the libraries' own dependencies through the sysroot, also those under /lib.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${sysroot}/lib/aarch64-linux-gnu")

find_program(KAIJU_QEMU NAMES qemu-aarch64 qemu-aarch64-static)
if(KAIJU_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${KAIJU_QEMU} -L ${sysroot})
endif()
