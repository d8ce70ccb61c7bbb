/* Two normal numbers of two words, by the steps of daemon/kernels/cpu/vec/philox.c: for the host and the device. */
#ifndef TENSORD_TESTS_CUDA_PROBE_TURN_H
#define TENSORD_TESTS_CUDA_PROBE_TURN_H

TD_FN float probe_turn(uint32_t w, int cosine)
{
    uint32_t quarter = (w + 0x20000000u) >> 30;
    float r = (float)(int32_t)(w - (quarter << 30)) * 1.4629180792671596e-09f, z = r * r; /* pi/2 / 2^30 */
    float s = r + r * z * (-1.6666664e-01f + z * (8.332748e-03f - z * 1.958787e-04f));
    float c = 1.0f - 0.5f * z + z * z * (4.1666664e-02f - z * (1.3888302e-03f - z * 2.4547922e-05f));
    quarter += cosine ? 1 : 0;
    float v = quarter & 1 ? c : s;
    return quarter & 2 ? -v : v;
}

TD_FN void probe_normal(const uint32_t *w, float *out)
{
    float u = ((float)(int32_t)(w[0] >> 1) + 0.5f) * 0x1p-31f, r = sqrtf(-2.0f * td_log_f32(u));
    out[0] = r * probe_turn(w[1], 1);
    out[1] = r * probe_turn(w[1], 0);
}

#endif
