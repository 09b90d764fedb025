/*
 * The inverse normal CDF in 32 polynomials; written by tools/normal_table.py, which explains it. Do not edit.
 *
 * Row k holds the coefficients of r^k, one for each octave. Included by C and by OpenCL C:
 *     static const float table[ICL_NORMAL_TERMS][ICL_NORMAL_OCTAVES] = {ICL_NORMAL_TABLE};
 */
#ifndef ICL_NORMAL_TABLE
#define ICL_NORMAL_TERMS   9
#define ICL_NORMAL_OCTAVES 32
/* clang-format off */
#define ICL_NORMAL_TABLE \
    {0x1.40d932p-26f, -0x1.5956b8p-1f, -0x1.267d4cp+0f, -0x1.88bc2p+0f, \
     -0x1.dcdbfep+0f, -0x1.13b22ap+1f, -0x1.357292p+1f, -0x1.547d18p+1f, \
     -0x1.715c7cp+1f, -0x1.8c735p+1f, -0x1.a60a6ep+1f, -0x1.be596ep+1f, \
     -0x1.d58bdp+1f, -0x1.ebc462p+1f, -0x1.008fbap+2f, -0x1.0ada3ap+2f, \
     -0x1.14cb7ap+2f, -0x1.1e6bc8p+2f, -0x1.27c24p+2f, -0x1.30d502p+2f, \
     -0x1.39a966p+2f, -0x1.424418p+2f, -0x1.4aa938p+2f, -0x1.52dc6ep+2f, \
     -0x1.5ae102p+2f, -0x1.62b9dcp+2f, -0x1.6a69a4p+2f, -0x1.71f2b8p+2f, \
     -0x1.795744p+2f, -0x1.80994p+2f, -0x1.87ba78p+2f, -0x1.8ebc96p+2f}, \
    {-0x1.40d92p-1f, -0x1.92cc58p-2f, -0x1.36e672p-2f, -0x1.043234p-2f, \
     -0x1.c6a9dap-3f, -0x1.97effp-3f, -0x1.74a9a8p-3f, -0x1.58e27ep-3f, \
     -0x1.425086p-3f, -0x1.2f8732p-3f, -0x1.1f96bp-3f, -0x1.11da38p-3f, \
     -0x1.05dc76p-3f, -0x1.f68ec2p-4f, -0x1.e3b49cp-4f, -0x1.d2c73ep-4f, \
     -0x1.c37912p-4f, -0x1.b58c7ap-4f, -0x1.a8cfdcp-4f, -0x1.9d1ac8p-4f, \
     -0x1.924be6p-4f, -0x1.884776p-4f, -0x1.7ef628p-4f, -0x1.76444p-4f, \
     -0x1.6e20e4p-4f, -0x1.667dap-4f, -0x1.5f4df2p-4f, -0x1.5886fcp-4f, \
     -0x1.521f42p-4f, -0x1.4c0e6cp-4f, -0x1.464d2p-4f, -0x1.40d4dap-4f}, \
    {-0x1.8c1b04p-16f, -0x1.aba6d4p-5f, -0x1.b281c2p-5f, -0x1.95dea6p-5f, \
     -0x1.782ed2p-5f, -0x1.5e2b8p-5f, -0x1.4801ep-5f, -0x1.351dp-5f, \
     -0x1.24dfb2p-5f, -0x1.16c714p-5f, -0x1.0a6c22p-5f, -0x1.fefd7ap-6f, \
     -0x1.eb80ccp-6f, -0x1.d9fff4p-6f, -0x1.ca2cdp-6f, -0x1.bbc8a2p-6f, \
     -0x1.aea07ap-6f, -0x1.a28a8ep-6f, -0x1.97645p-6f, -0x1.8d10ep-6f, \
     -0x1.8377fp-6f, -0x1.7a84eap-6f, -0x1.722632p-6f, -0x1.6a4cacp-6f, \
     -0x1.62eb46p-6f, -0x1.5bf6a4p-6f, -0x1.5564dap-6f, -0x1.4f2d3p-6f, \
     -0x1.4947f8p-6f, -0x1.43ae62p-6f, -0x1.3e5a62p-6f, -0x1.394692p-6f}, \
    {-0x1.4d9878p-5f, -0x1.3911b2p-6f, -0x1.12a43ap-6f, -0x1.f7c22ap-7f, \
     -0x1.d347fep-7f, -0x1.b4d7dep-7f, -0x1.9b1428p-7f, -0x1.850388p-7f, \
     -0x1.71e87ep-7f, -0x1.613216p-7f, -0x1.5270c6p-7f, -0x1.454e02p-7f, \
     -0x1.3985eap-7f, -0x1.2ee2aep-7f, -0x1.253922p-7f, -0x1.1c664ep-7f, \
     -0x1.144d8ep-7f, -0x1.0cd732p-7f, -0x1.05ef82p-7f, -0x1.ff0bcap-8f, \
     -0x1.f3189cp-8f, -0x1.e7ed84p-8f, -0x1.dd75fp-8f, -0x1.d3a01cp-8f, \
     -0x1.ca5c9ap-8f, -0x1.c19df8p-8f, -0x1.b95864p-8f, -0x1.b18178p-8f, \
     -0x1.aa0ffep-8f, -0x1.a2fbccp-8f, -0x1.9c3d96p-8f, -0x1.95ced4p-8f}, \
    {-0x1.a75fd6p-10f, -0x1.068646p-7f, -0x1.e81604p-8f, -0x1.c48678p-8f, \
     -0x1.a69942p-8f, -0x1.8d4a88p-8f, -0x1.77a804p-8f, -0x1.64f4d2p-8f, \
     -0x1.54a008p-8f, -0x1.463a42p-8f, -0x1.396d3ap-8f, -0x1.2df566p-8f, \
     -0x1.239d56p-8f, -0x1.1a3a44p-8f, -0x1.11a994p-8f, -0x1.09cefap-8f, \
     -0x1.029322p-8f, -0x1.f7c534p-9f, -0x1.eb5a24p-9f, -0x1.dfc97ap-9f, \
     -0x1.d4fbb2p-9f, -0x1.cadca6p-9f, -0x1.c15aecp-9f, -0x1.b86772p-9f, \
     -0x1.aff50ep-9f, -0x1.a7f834p-9f, -0x1.a066c2p-9f, -0x1.9937bcp-9f, \
     -0x1.926326p-9f, -0x1.8be1eap-9f, -0x1.85adacp-9f, -0x1.7fc0bap-9f}, \
    {-0x1.0098aep-10f, 0x1.ac4a02p-10f, 0x1.9864fcp-10f, 0x1.84889cp-10f, \
     0x1.730cfap-10f, 0x1.63849cp-10f, 0x1.559b34p-10f, 0x1.491108p-10f, \
     0x1.3db398p-10f, 0x1.3359d6p-10f, 0x1.29e1c2p-10f, 0x1.212ef4p-10f, \
     0x1.19298p-10f, 0x1.11bd1cp-10f, 0x1.0ad88ep-10f, 0x1.046d06p-10f, \
     0x1.fcdbacp-11f, 0x1.f19ff8p-11f, 0x1.e713ep-11f, 0x1.dd26bcp-11f, \
     0x1.d3c9fap-11f, 0x1.caf0c4p-11f, 0x1.c28fccp-11f, 0x1.ba9d06p-11f, \
     0x1.b30f84p-11f, 0x1.abdf54p-11f, 0x1.a50552p-11f, 0x1.9e7b1ap-11f, \
     0x1.983aep-11f, 0x1.923f74p-11f, 0x1.8c841ep-11f, 0x1.87049ap-11f}, \
    {-0x1.e50a4ap-8f, -0x1.f91d2p-8f, -0x1.d54e48p-8f, -0x1.b72cbep-8f, \
     -0x1.9d9dep-8f, -0x1.87b0aep-8f, -0x1.74ac4ep-8f, -0x1.640344p-8f, \
     -0x1.5548a6p-8f, -0x1.4827d6p-8f, -0x1.3c5e5ap-8f, -0x1.31b75cp-8f, \
     -0x1.28086cp-8f, -0x1.1f2f0ep-8f, -0x1.170fp-8f, -0x1.0f90dap-8f, \
     -0x1.08a11p-8f, -0x1.022f2ep-8f, -0x1.f85a8ap-9f, -0x1.ed1ed8p-9f, \
     -0x1.e296ccp-9f, -0x1.d8b0bap-9f, -0x1.cf5d46p-9f, -0x1.c68efep-9f, \
     -0x1.be3a1ep-9f, -0x1.b65442p-9f, -0x1.aed438p-9f, -0x1.a7b1d4p-9f, \
     -0x1.a0e5c8p-9f, -0x1.9a699p-9f, -0x1.94375p-9f, -0x1.8e49c2p-9f}, \
    {0x1.5e3a98p-8f, 0x1.53338ap-8f, 0x1.3b973ep-8f, 0x1.27bb88p-8f, \
     0x1.16d98p-8f, 0x1.0854e6p-8f, 0x1.f76caap-9f, 0x1.e144e8p-9f, \
     0x1.cda5a4p-9f, 0x1.bc213p-9f, 0x1.ac6128p-9f, 0x1.9e20b4p-9f, \
     0x1.912868p-9f, 0x1.854b24p-9f, 0x1.7a63d2p-9f, 0x1.7053acp-9f, \
     0x1.6700f8p-9f, 0x1.5e5606p-9f, 0x1.564068p-9f, 0x1.4eb05ep-9f, \
     0x1.47985ap-9f, 0x1.40eca4p-9f, 0x1.3aa306p-9f, 0x1.34b298p-9f, \
     0x1.2f138p-9f, 0x1.29bed8p-9f, 0x1.24ae7cp-9f, 0x1.1fdcfap-9f, \
     0x1.1b4576p-9f, 0x1.16e39p-9f, 0x1.12b364p-9f, 0x1.0eb164p-9f}, \
    {-0x1.3f5d86p-9f, -0x1.2af182p-9f, -0x1.15c88p-9f, -0x1.0405dep-9f, \
     -0x1.e9e71cp-10f, -0x1.d0078ap-10f, -0x1.b993f8p-10f, -0x1.a5e666p-10f, \
     -0x1.947efep-10f, -0x1.84fa68p-10f, -0x1.770a86p-10f, -0x1.6a713ep-10f, \
     -0x1.5efcap-10f, -0x1.54841cp-10f, -0x1.4ae666p-10f, -0x1.4207eap-10f, \
     -0x1.39d1ap-10f, -0x1.323024p-10f, -0x1.2b13p-10f, -0x1.246c2ap-10f, \
     -0x1.1e2f8ep-10f, -0x1.1852bap-10f, -0x1.12cc9cp-10f, -0x1.0d9548p-10f, \
     -0x1.08a5c6p-10f, -0x1.03f7f2p-10f, -0x1.ff0ccp-11f, -0x1.f69874p-11f, \
     -0x1.ee8a6p-11f, -0x1.e6dacep-11f, -0x1.df82cep-11f, -0x1.d87c22p-11f}
/* clang-format on */
#endif
