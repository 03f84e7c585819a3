import { hash } from 'node:crypto'
import { Elysia } from 'elysia'
import { ollamaBase, otherTag, readOllamaBody } from '../../actors/operations/ollama-place.ts'
import { brand, product } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { isOwn } from '../../machines/rules/eligibility.ts'
import type { Route } from '../../machines/rules/routing.ts'
import { readJsonText } from '../../protocol/json/json-body.ts'
import { noSuchModel } from '../../protocol/validation/missing-model.ts'
import type { Model } from '../../protocol/wire/inference/models.ts'
import { OllamaShowRequest } from '../../protocol/wire/inference/ollama.ts'
import type { ModelFile, ModelMemory } from '../../protocol/wire/nodes/model-facts.ts'
import { isoTime, secondMs } from '../../time.ts'
import type { HttpContext, RouteCall } from '../frame/context.ts'
import { inferenceAccess } from '../inference/inference-access.ts'
import { requestId } from '../plugins/request-id.ts'
import { callableRoutes, modelsOf } from '../views/visible-models.ts'

/** The Ollama whose interface this is; clients look whether it is new enough. */
const spokenVersion = '0.13.0'
/** No model leaves the memory by a time that anybody here knows. */
const never = '9999-12-31T23:59:59Z'
/** Clients send more than a name when they ask for one model. */
const showBytesMax = 16 * 1024
/** What Ollama has a word for, where the server itself says nothing. */
const capabilities: Partial<Record<Model['svc']['modality'], readonly string[]>> = {
  chat: ['completion', 'tools'],
  embedding: ['embedding'],
}

/** A model of the list, and the routes that have it. */
interface Listed {
  readonly model: Model
  readonly routes: readonly Route[]
}

async function visible(
  context: HttpContext,
  { exchange, request }: Pick<RouteCall, 'exchange' | 'request'>,
): Promise<readonly Listed[]> {
  const { router } = context.gateway
  const access = await inferenceAccess(context, request, exchange.address)
  exchange.keyId = access.keyId
  exchange.proved = true
  if (access.accountStatus !== 'active') throw new Problem('account_suspended')
  // What own nodes say of a model comes before what others say of theirs.
  const routes = callableRoutes(router.table(), access, Date.now()).toSorted(
    (a, b) => Number(isOwn(b, access.customerId)) - Number(isOwn(a, access.customerId)),
  )
  const byId = Map.groupBy(routes, ({ modelId }) => modelId)
  return modelsOf(routes, access.customerId)
    .filter(({ svc }) => svc.modality in capabilities)
    .map((model) => ({ model, routes: byId.get(model.id) ?? [] }))
}

/** From one server: the size of one and the digest of another would describe no model. */
const fileOf = ({ routes }: Listed): ModelFile => routes.find(({ file }) => file !== null)?.file ?? {}

/** Clients expect these members; what no server says is empty. */
const detailsOf = ({ format, family, families, parameter_size, quantization_level }: ModelFile) => ({
  parent_model: '',
  format: format ?? '',
  family: family ?? '',
  families: families ?? [],
  parameter_size: parameter_size ?? '',
  quantization_level: quantization_level ?? '',
})
/** Clients tell models apart by a digest, and Ollama's own program ends without one. */
const digestOf = (id: string, { digest }: ModelFile) => digest ?? hash('sha256', id)

const modifiedAt = ({ created }: Model, { modified_at: at }: ModelFile) => at ?? isoTime(created * secondMs)

const named = ({ id }: Model, file: ModelFile) => ({
  name: id,
  model: id,
  digest: digestOf(id, file),
  details: detailsOf(file),
})

/** A size that no server says is absent: 0 would be one. */
function listed(entry: Listed) {
  const { model } = entry
  const file = fileOf(entry)
  const { size_bytes: size } = file
  return { ...named(model, file), modified_at: modifiedAt(model, file), ...(size === undefined ? {} : { size }) }
}

/** The memory on the server where the model takes most. */
function memoryOf({ routes }: Listed): ModelMemory | null {
  const measured = routes.flatMap(({ loaded, memory }) => (loaded === true && memory !== null ? [memory] : []))
  return measured.toSorted((a, b) => b.bytes - a.bytes)[0] ?? null
}

function running(entry: Listed) {
  const { model } = entry
  const { context_length: context } = model.svc
  const memory = memoryOf(entry)
  return {
    ...named(model, fileOf(entry)),
    ...(memory === null ? {} : { size: memory.bytes }),
    ...(memory?.video_bytes === undefined ? {} : { size_vram: memory.video_bytes }),
    ...(context === null ? {} : { context_length: context }),
    expires_at: never,
  }
}

/** Clients look for the length under the name of the architecture. */
const architectureUnknown = 'unknown'

function shown(entry: Listed) {
  const { model } = entry
  const { svc } = model
  const file = fileOf(entry)
  const architecture = file.family ?? architectureUnknown
  return {
    modelfile: '',
    parameters: '',
    template: '',
    details: detailsOf(file),
    model_info: {
      'general.architecture': architecture,
      ...(svc.context_length === null ? {} : { [`${architecture}.context_length`]: svc.context_length }),
    },
    capabilities: file.capabilities ?? capabilities[svc.modality],
    modified_at: modifiedAt(model, file),
  }
}

async function show(context: HttpContext, asked: Pick<RouteCall, 'exchange' | 'request'>) {
  const models = await visible(context, asked)
  const { request } = asked
  const text = await context.connections.body(request, readJsonText(request, showBytesMax, context.jsonTypes))
  const { model: wanted } = readOllamaBody(text, OllamaShowRequest)
  const [found] = [wanted, otherTag(wanted)].flatMap((name) => models.find(({ model }) => model.id === name) ?? [])
  if (found === undefined) {
    const known = models.map(({ model }) => model.id)
    throw new Problem('model_not_found', { param: 'model', detail: noSuchModel(wanted, known, `${ollamaBase}/tags`) })
  }
  return shown(found)
}

/** What Ollama's clients ask of models (§28): those of the account, as far as Ollama has a word for them. */
export const ollamaModels = (context: HttpContext) =>
  new Elysia()
    .use(requestId(context))
    // Clients look whether somebody is there.
    .get('/', () => 'Ollama is running')
    // Discovery knows by `svc` that there is a gateway and no model server: it would ask itself.
    .get(`${ollamaBase}/version`, () => ({ version: spokenVersion, [brand]: { product } }))
    .get(`${ollamaBase}/tags`, async (asked) => ({ models: (await visible(context, asked)).map(listed) }))
    .get(`${ollamaBase}/ps`, async (asked) => {
      const models = await visible(context, asked)
      return { models: models.filter(({ model }) => model.svc.loaded === true).map(running) }
    })
    .post(`${ollamaBase}/show`, (asked) => show(context, asked), { parse: 'none' })
