import type { ModelFile } from '../../src/protocol/wire/nodes/model-facts.ts'

const file = (size: number, digest: string, family: string, [parameters, quantization]: readonly [string, string]) => ({
  size_bytes: size,
  digest,
  modified_at: '2026-08-20T09:12:44.120Z',
  format: 'gguf',
  family,
  families: [family],
  parameter_size: parameters,
  quantization_level: quantization,
})
const earlier = (family: string, kind: readonly [string, string]) => ({
  ...file(3_338_801_804, 'a2af6cc3eb7fa8be8504abaf9b04e88f17a119ec3f04a3addf55f92841195f5a', family, kind),
  modified_at: '2025-10-04T06:34:03.409Z',
})
const { families: _, ...withoutFamilies } = earlier('llama', ['13B', 'Q4_0'])

/** What the recorded lists of Ollama say of their models' files. */
export const recordedFiles = {
  codellama: {
    ...file(7_365_960_935, '2b67d617316ddc46072b40237810f87a071846764d993b335d95e04a6f95d88a', 'llama', [
      '13B',
      'Q4_0',
    ]),
    capabilities: ['completion'],
  },
  mistral: {
    ...file(4_113_301_824, 'd146c3e4e126269cc1481465119ffce8d2730e4bdfeae372dc0fdc49abfa4616', 'llama', [
      '7.2B',
      'Q4_0',
    ]),
    capabilities: ['completion', 'tools'],
  },
  nomic: {
    ...file(274_302_450, '10886753ec3b09dda767d55999092b801d783cdc24f9e0e5b10045071e2d9a06', 'nomic-bert', [
      '137M',
      'F16',
    ]),
    capabilities: ['embedding'],
  },
  semantic: {
    ...file(639_150_858, '9da3e12c1f2233b2a063bbb145022dee4cd2bc7a190f99f7fed92ba90ceb3170', 'qwen3', ['596M', 'Q8_0']),
    capabilities: ['embedding'],
  },
  earlierCodellama: withoutFamilies,
  earlierMistral: earlier('llama', ['7.2B', 'Q4_0']),
  earlierNomic: earlier('nomic-bert', ['137M', 'F16']),
} satisfies Readonly<Record<string, ModelFile>>

/** What llama.cpp says of the weights that it has in memory. */
export const weights = { size_bytes: 4_912_898_304, quantization_level: 'Q4_K - Medium' }

const studio = (family: string, format: string, quantization: string) => ({
  family,
  format,
  quantization_level: quantization,
})
/** What LM Studio says. */
export const studioFiles = {
  qwen: studio('qwen2_vl', 'mlx', '4bit'),
  llama: studio('llama', 'gguf', 'Q4_K_M'),
  nomic: studio('nomic-bert', 'gguf', 'Q4_0'),
}
