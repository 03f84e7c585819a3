import { brand } from '../brand.ts'
import { ask, believable, countOf, type Fields, fieldsOf, listOf, textOf } from './answers.ts'
import { modalityByName } from './modality.ts'
import { ollamaLoads } from './model-loads.ts'
import { idleStatus, type ProbeFetch, type RuntimeModule } from './runtime.ts'

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
        ...memoryOf(loaded),
      }
      return embeds(entry) ? { ...model, modality: 'embedding' as const } : model
    })
    return { ...idleStatus('ollama', 'down'), state: 'ready', models: believable(models) }
  },
  loads: ollamaLoads,
}

/** A gateway that speaks as Ollama does is no model server, of no kind: it might be the one that asks. */
export async function isOllamaOfGateway(get: ProbeFetch): Promise<boolean> {
  const { body } = await ask(get, '/api/version')
  return fieldsOf(body)[brand] !== undefined
}

const mebibyte = 2 ** 20

/** Of a model that is in memory, on the card and beside it. */
function memoryOf(loaded: Fields | undefined): { readonly memoryMb?: number } {
  const bytes = countOf(loaded?.size)
  return bytes === null || bytes === 0 ? {} : { memoryMb: Math.ceil(bytes / mebibyte) }
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
function embeds(entry: Fields): boolean {
  if (only(entry, 'embedding')) return true
  const details = fieldsOf(entry.details)
  const families = [details.family, ...(Array.isArray(details.families) ? details.families : [])]
  const isBert = families.some((family) => typeof family === 'string' && family.includes('bert'))
  return isBert || modalityByName(nameOf(entry)) === 'embedding'
}

/** Ollama's own service answers for a cloud model, so a prompt for it would leave the owner's nodes. */
function staysHere(entry: Fields): boolean {
  return textOf(entry.remote_host) === null && textOf(entry.remote_model) === null && !/[:-]cloud$/.test(nameOf(entry))
}
