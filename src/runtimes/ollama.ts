import { brand } from '../brand.ts'
import { labelOf, labelsOf } from '../protocol/wire/nodes/model-facts.ts'
import { isoTime } from '../time.ts'
import { ask, believable, countOf, type Fields, fieldsOf, fileOf, listOf, textOf } from './answers.ts'
import { modalityByName } from './modality.ts'
import { ollamaLoads } from './model-loads.ts'
import { idleStatus, type ProbeFetch, type RuntimeModel, type RuntimeModule } from './runtime.ts'

export const ollama: RuntimeModule = {
  kind: 'ollama',
  ports: [11_434],
  async detect(get) {
    const version = await ask(get, '/api/version')
    if (version.status !== 200 || textOf(fieldsOf(version.body).version) === null) return false
    if (await isOllamaOfGateway(get)) return false
    const tags = await ask(get, '/api/tags')
    return tags.status === 200 && isModelList(tags.body)
  },
  async probe(get) {
    const [tags, running] = await Promise.all([ask(get, '/api/tags'), ask(get, '/api/ps')])
    if (tags.status !== 200 || !isModelList(tags.body)) return idleStatus('ollama', 'down')
    const inMemory = new Map((listOf(fieldsOf(running.body).models) ?? []).map((entry) => [nameOf(entry), entry]))
    const installed = (listOf(fieldsOf(tags.body).models) ?? []).filter((entry) => staysHere(entry) && !draws(entry))
    const models = installed.map((entry) => {
      const loaded = inMemory.get(nameOf(entry))
      // The context length of a model is unknown until the server has loaded the model.
      const model = {
        id: nameOf(entry),
        contextLength: countOf(loaded?.context_length),
        ready: true,
        loaded: loaded !== undefined,
        ...describedBy(entry),
        ...memoryOf(loaded),
      }
      return { ...model, ...workOf(entry) }
    })
    return { ...idleStatus('ollama', 'down'), state: 'ready', models: believable(models) }
  },
  // https://github.com/ollama/ollama/issues/7125
  boundByMaxTokens: true,
  // On is its default where a model thinks, and an error where it does not.
  thinking: (on) => (on ? {} : { reasoning_effort: 'none' }),
  loads: ollamaLoads,
}

/** A gateway's Ollama listener is no model server: it might belong to the gateway that asks. */
export async function isOllamaOfGateway(get: ProbeFetch): Promise<boolean> {
  const { body } = await ask(get, '/api/version')
  return fieldsOf(body)[brand] !== undefined
}

const mebibyte = 2 ** 20
const latestMs = Date.parse('9999-12-31T23:59:59.999Z')

/** The memory of a loaded model, on the GPU and outside of it. */
function memoryOf(loaded: Fields | undefined): Pick<RuntimeModel, 'memoryMb' | 'memory'> {
  const bytes = countOf(loaded?.size)
  if (bytes === null) return {}
  const video = loaded?.size_vram
  const onCard = typeof video === 'number' && Number.isSafeInteger(video) && video >= 0
  return { memoryMb: Math.ceil(bytes / mebibyte), memory: { bytes, ...(onCard ? { video_bytes: video } : {}) } }
}

/** The list's description of a model's files. */
function describedBy(entry: Fields): Pick<RuntimeModel, 'file'> {
  const details = fieldsOf(entry.details)
  const digest = textOf(entry.digest)?.replace(/^sha256:/, '') ?? ''
  const modifiedMs = Date.parse(textOf(entry.modified_at) ?? '')
  return fileOf({
    size_bytes: countOf(entry.size),
    digest: /^[0-9a-f]{64}$/.test(digest) ? digest : null,
    modified_at: modifiedMs >= 0 && modifiedMs <= latestMs ? isoTime(modifiedMs) : null,
    format: labelOf(details.format),
    family: labelOf(details.family),
    families: labelsOf(details.families),
    parameter_size: labelOf(details.parameter_size),
    quantization_level: labelOf(details.quantization_level),
    capabilities: labelsOf(entry.capabilities),
  })
}

/** A server without a model says `null` or an empty list. */
function isModelList(body: unknown): boolean {
  const { models } = fieldsOf(body)
  return Array.isArray(models) || models === null
}

function nameOf(entry: Fields): string {
  return textOf(entry.model) ?? textOf(entry.name) ?? ''
}

/** True if the list says (since 0.30) that the model does `work` and no writing. */
function only(entry: Fields, work: string): boolean {
  const { capabilities: can } = entry
  return Array.isArray(can) && can.includes(work) && !can.includes('completion')
}

/** Ollama lists models that make pictures, but runs them no more (since 0.33), and none of them ever chatted. */
const draws = (entry: Fields): boolean => only(entry, 'image')

/** Where the list does not say it, embedding models belong to the BERT families or have such a name. */
function workOf(entry: Fields): Pick<RuntimeModel, 'modality' | 'workGuessed'> {
  if (only(entry, 'embedding')) return { modality: 'embedding' }
  const details = fieldsOf(entry.details)
  const families = [details.family, ...(Array.isArray(details.families) ? details.families : [])]
  if (families.some((family) => typeof family === 'string' && family.includes('bert'))) return { modality: 'embedding' }
  if (Array.isArray(entry.capabilities) && entry.capabilities.includes('completion')) return {}
  return modalityByName(nameOf(entry)) === 'embedding'
    ? { modality: 'embedding', workGuessed: true }
    : { workGuessed: true }
}

/** Ollama's own service answers for a cloud model, so a prompt for it would leave the owner's nodes. */
function staysHere(entry: Fields): boolean {
  return textOf(entry.remote_host) === null && textOf(entry.remote_model) === null && !/[:-]cloud$/.test(nameOf(entry))
}
