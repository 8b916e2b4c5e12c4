// What OpenGL's state is, for those who put it back: Dear ImGui's renderer asks for some twenty values, each frame. In a
// browser every such question waits until all that was drawn is done. Here nobody else draws, and everybody sets what he
// needs, so that the values of the beginning are good enough.
#include <GLES3/gl3.h>

/// glGetIntegerv, as imgui_impl_opengl3.cpp is compiled here (FlashscopeWeb.cmake).
extern "C" void page_gl_integer(GLenum name, GLint* values) {
  switch (name) {
    case GL_ACTIVE_TEXTURE: *values = GL_TEXTURE0; break;
    case GL_BLEND_SRC_RGB:
    case GL_BLEND_SRC_ALPHA: *values = GL_ONE; break;
    case GL_BLEND_DST_RGB:
    case GL_BLEND_DST_ALPHA: *values = GL_ZERO; break;
    case GL_BLEND_EQUATION_RGB:
    case GL_BLEND_EQUATION_ALPHA: *values = GL_FUNC_ADD; break;
    case GL_CURRENT_PROGRAM:
    case GL_TEXTURE_BINDING_2D:
    case GL_ARRAY_BUFFER_BINDING:
    case GL_VERTEX_ARRAY_BINDING: *values = 0; break;
    case GL_VIEWPORT:
    case GL_SCISSOR_BOX: values[0] = values[1] = values[2] = values[3] = 0; break;
    default: glGetIntegerv(name, values);
  }
}
