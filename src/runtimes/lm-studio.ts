import { labelOf } from '../protocol/wire/nodes/model-facts.ts'
import { type Answer, ask, believable, countOf, type Fields, fileOf, modelListOf, textOf } from './answers.ts'
import { lmStudioLoads } from './model-loads.ts'
import { idleStatus, type RuntimeModule } from './runtime.ts'

const modelsPath = '/api/v0/models'

export const lmStudio: RuntimeModule = {
  kind: 'lmstudio',
  ports: [1_234],
  // It answers 200 with an error body on paths it does not know, so only the shape of the list counts.
  detect: async (get) => statefulList(await ask(get, modelsPath)) !== null,
  async probe(get) {
    const [rich, plain] = await Promise.all([ask(get, modelsPath), ask(get, '/v1/models')])
    const list = statefulList(rich)
    if (list === null) return idleStatus('lmstudio', 'down')
    // With just-in-time loading the OpenAI list names every model on disk, without it only those in memory.
    const served = new Set(modelListOf(plain)?.map((entry) => entry.id))
    const models = list
      .filter((entry) => modalityOf(entry) !== null)
      .map((entry) => ({
        id: textOf(entry.id) ?? '',
        contextLength: countOf(entry.loaded_context_length) ?? countOf(entry.max_context_length),
        ready: entry.state === 'loaded' || (entry.state === 'not-loaded' && served.has(entry.id)),
        loaded: entry.state === 'loaded',
        ...fileOf({
          format: labelOf(entry.compatibility_type),
          family: labelOf(entry.arch),
          quantization_level: labelOf(entry.quantization),
        }),
        ...(modalityOf(entry) === 'embedding' ? { modality: 'embedding' as const } : {}),
      }))
    return { ...idleStatus('lmstudio', 'down'), state: 'ready', models: believable(models) }
  },
  boundByMaxTokens: true,
  loads: lmStudioLoads,
}

function statefulList(answer: Answer): readonly Fields[] | null {
  const list = modelListOf(answer)
  return list?.every((entry) => textOf(entry.state) !== null && textOf(entry.type) !== null) ? list : null
}

/** null: of no use here. */
function modalityOf({ type }: Fields): 'chat' | 'embedding' | null {
  if (type === 'llm' || type === 'vlm') return 'chat'
  return type === 'embeddings' ? 'embedding' : null
}
