import { readFileSync, statSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import { type Static, Type } from '@sinclair/typebox'
import { inDigits } from '../../amounts.ts'
import { Confidences } from '../../confidences.ts'
import type { DeviceMb } from '../../machines/rules/model-memory.ts'
import { findFaults } from '../../protocol/validation/faults.ts'
import { dottedPath, sentenceOf } from '../../protocol/validation/sentences.ts'
import { deviceMemory } from '../../protocol/wire/nodes/agent.ts'
import { formed, literals, modelId, slug, strict } from '../../protocol/wire/shapes.ts'
import { lexicalModelId } from '../../runtimes/runtime.ts'
import { NodeStartError } from '../membership/enrollment.ts'
import { JsonFault, type LinedJson, linedJson } from './lined-json.ts'

export const modelsFile = 'models.json'

const fileBytesMax = 256 * 1024
export const modelServersMax = 32
const memoryMbMax = 16 * 1024 * 1024
/** What `memory_mb` is the memory of. */
export const mainDevice = 'memory'

const noZero = (most: number, least = 0) =>
  formed('^[^\\u0000]*$', `text of ${least} to ${inDigits(most)} characters without a zero byte`, {
    minLength: least,
    maxLength: most,
  })
const memoryMb = Type.Integer({ minimum: 1, maximum: memoryMbMax })
/** How many members of a request a model may set, and strip; and names for one server. */
const membersMax = 32
const profilesMax = 16
const memberName = formed('^[a-z][a-z0-9_]{0,63}$', 'a name of 1 to 64 lower-case letters, digits and _')

/** What the agent changes in requests for a model: members that it sets whatever was sent, and that it leaves out. */
const RequestChange = Type.Object(
  {
    set: Type.Optional(
      Type.Record(Type.String({ pattern: '^[a-z][a-z0-9_]{0,63}$' }), Type.Unknown(), {
        ...strict,
        maxProperties: membersMax,
      }),
    ),
    strip: Type.Optional(Type.Array(memberName, { maxItems: membersMax })),
  },
  strict,
)
export type RequestChange = Static<typeof RequestChange>

const ServedModel = Type.Object(
  {
    id: modelId,
    command: Type.Array(noZero(4_096, 1), {
      minItems: 1,
      maxItems: 256,
    }),
    env: Type.Optional(
      Type.Record(Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]{0,127}$' }), noZero(32_768), {
        ...strict,
        maxProperties: 256,
      }),
    ),
    cwd: Type.Optional(noZero(4_096, 1)),
    port: Type.Optional(Type.Union([Type.Literal('auto'), Type.Integer({ minimum: 1, maximum: 65_535 })])),
    health: Type.Optional(
      formed('^/[\\x21-\\x7e]*$', 'a path that begins with /, of at most 256 ASCII characters without spaces', {
        maxLength: 256,
      }),
    ),
    modality: Type.Optional(literals(['chat', 'rerank'])),
    memory_mb: Type.Optional(memoryMb),
    memory: Type.Optional(deviceMemory('MiB by device')),
    pinned: Type.Optional(Type.Boolean()),
    preload: Type.Optional(Type.Boolean()),
    stop: Type.Optional(Type.Array(noZero(4_096, 1), { minItems: 1, maxItems: 256 })),
    request: Type.Optional(RequestChange),
    profiles: Type.Optional(
      Type.Array(Type.Object({ id: modelId, request: Type.Optional(RequestChange) }, strict), {
        minItems: 1,
        maxItems: profilesMax,
      }),
    ),
    idle_ttl_s: Type.Optional(Type.Integer({ minimum: 1, maximum: 604_800 })),
    start_timeout_s: Type.Optional(Type.Integer({ minimum: 1, maximum: 3_600 })),
    slots: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_024 })),
    group: Type.Optional(slug()),
  },
  strict,
)
export type ServedModel = Static<typeof ServedModel>

const ModelsFile = Type.Object(
  {
    memory_mb: Type.Optional(memoryMb),
    memory: Type.Optional(deviceMemory('MiB by device')),
    models: Type.Array(ServedModel, { minItems: 1, maxItems: modelServersMax }),
  },
  strict,
)
export type ModelsFile = Static<typeof ModelsFile>

/** A fault by its place, for the person who wrote the file. */
interface Fault {
  readonly pointer: string
  /** What follows the name of the field. */
  readonly says: string
}

/** What a model takes, or a file has to give, by device. `memory_mb` is that of the computer itself. */
export const memoryOf = ({ memory_mb, memory = {} }: Pick<ModelsFile, 'memory_mb' | 'memory'>): DeviceMb => ({
  ...memory,
  ...(memory_mb === undefined ? {} : { [mainDevice]: memory_mb }),
})

/** All devices together. */
export const memorySum = (model: Pick<ModelsFile, 'memory_mb' | 'memory'>): number =>
  Object.values(memoryOf(model)).reduce((sum, mb) => sum + mb, 0)

const noMemory = 'is missing. Send memory_mb, or memory with MiB by device.'

function* memoryFaults(file: ModelsFile): Generator<Fault> {
  const budget = memoryOf(file)
  if (Object.keys(budget).length === 0) yield { pointer: '/memory_mb', says: noMemory }
  if (file.memory_mb !== undefined && file.memory?.[mainDevice] !== undefined) {
    yield { pointer: `/memory/${mainDevice}`, says: 'is memory_mb under another name. Leave one of them out.' }
  }
  for (const [at, model] of file.models.entries()) {
    const pointer = `/models/${at}`
    if (Object.keys(memoryOf(model)).length === 0) yield { pointer: `${pointer}/memory_mb`, says: noMemory }
    for (const [device, mb] of Object.entries(memoryOf(model))) {
      const field = device === mainDevice && model.memory_mb !== undefined ? 'memory_mb' : `memory/${device}`
      const most = budget[device]
      if (most === undefined) yield { pointer: `${pointer}/${field}`, says: 'has no budget in the file.' }
      else if (mb > most) {
        const whole = field === 'memory_mb' ? 'memory_mb of the whole file' : 'the budget of the whole file'
        yield { pointer: `${pointer}/${field}`, says: `is more than ${whole}, ${most}.` }
      }
    }
  }
}

/** Pins are promises: they must be kept together, and leave each other model a place to be loaded. */
function* pinFaults(file: ModelsFile): Generator<Fault> {
  const left = new Map(Object.entries(memoryOf(file)))
  const groups = new Set<string>()
  for (const [at, model] of file.models.entries()) {
    if (model.pinned !== true) continue
    const pointer = `/models/${at}/pinned`
    if (model.idle_ttl_s !== undefined)
      yield { pointer, says: 'excludes idle_ttl_s: a pinned model is never unloaded.' }
    for (const [device, mb] of Object.entries(memoryOf(model))) left.set(device, (left.get(device) ?? 0) - mb)
    if (!fitsIn(left, {})) yield { pointer, says: 'does not fit into the memory beside the other pinned models.' }
    if (model.group !== undefined && groups.has(model.group))
      yield { pointer, says: 'is set for two models of one group.' }
    if (model.group !== undefined) groups.add(model.group)
  }
  for (const [at, model] of file.models.entries()) {
    if (model.pinned === true) continue
    const pointer = `/models/${at}`
    if (!fitsIn(left, memoryOf(model))) yield { pointer, says: 'never fits into the memory beside the pinned models.' }
    if (model.group !== undefined && groups.has(model.group)) {
      yield { pointer: `${pointer}/group`, says: 'has a pinned model, so that this one is never loaded.' }
    }
  }
}

const fitsIn = (left: ReadonlyMap<string, number>, needs: DeviceMb) =>
  [...left].every(([device, mb]) => (needs[device] ?? 0) <= mb)

/** Members of a request that belong to the agent. */
const ownMembers: ReadonlySet<string> = new Set(['model', 'messages', 'stream', 'stream_options', 'svc'])
const changeBytesMax = 16 * 1024

function* changeFaults(change: RequestChange | undefined, pointer: string): Generator<Fault> {
  if (change === undefined) return
  const { set = {}, strip = [] } = change
  for (const name of Object.keys(set)) {
    if (ownMembers.has(name)) yield { pointer: `${pointer}/set/${name}`, says: 'cannot be set.' }
  }
  for (const [at, name] of strip.entries()) {
    if (ownMembers.has(name))
      yield { pointer: `${pointer}/strip/${at}`, says: 'names a member that cannot be stripped.' }
  }
  if (JSON.stringify(set).length > changeBytesMax) {
    yield { pointer: `${pointer}/set`, says: `has more than ${changeBytesMax} bytes.` }
  }
}

const forChat = 'is for models that chat.'

/** Faults that the schema cannot express. */
function* faultsOf(file: ModelsFile): Generator<Fault> {
  const ids = new Set<string>()
  const ports = new Set<number>()
  for (const [at, { id, port, cwd, modality, request, profiles = [] }] of file.models.entries()) {
    const pointer = `/models/${at}`
    if (modality === 'rerank' && request !== undefined) yield { pointer: `${pointer}/request`, says: forChat }
    if (modality === 'rerank' && profiles.length > 0) yield { pointer: `${pointer}/profiles`, says: forChat }
    const named = [
      { id, pointer, request },
      ...profiles.map((profile, n) => ({ ...profile, pointer: `${pointer}/profiles/${n}` })),
    ]
    for (const one of named) {
      if (ids.has(one.id)) yield { pointer: `${one.pointer}/id`, says: 'is the id of another model, too.' }
      if (one.id === lexicalModelId)
        yield { pointer: `${one.pointer}/id`, says: "is the id of the agent's own ranker. Choose another one." }
      ids.add(one.id)
      yield* changeFaults(one.request, `${one.pointer}/request`)
    }
    if (typeof port === 'number') {
      if (ports.has(port)) yield { pointer: `${pointer}/port`, says: 'is the port of another model, too.' }
      ports.add(port)
    }
    if (cwd !== undefined && !isAbsolute(cwd)) yield { pointer: `${pointer}/cwd`, says: 'must begin with /.' }
  }
  yield* memoryFaults(file)
  yield* pinFaults(file)
}

const secretName = /key|token|secret|passw|credential/i
const secretFlag = /^--?[\w-]*(?:key|token|secret|password)(?:=(.+))?$/i

/**
 * Confidential values of a model's command, which may appear in its output: some programs print all of their arguments.
 */
export function confidedTo({ env = {}, command, stop = [] }: ServedModel): Confidences {
  const values = Object.entries(env).flatMap(([name, value]) => (secretName.test(name) ? [value] : []))
  const given = [command, stop].flatMap((words) =>
    words.flatMap((argument, at) => {
      const flag = secretFlag.exec(argument)
      return flag === null ? [] : [flag[1] ?? words[at + 1] ?? '']
    }),
  )
  return new Confidences([...values, ...given])
}

const refused = (path: string, line: number, text: string) => new NodeStartError(`${path}, line ${line}: ${text}`)

function parsed(path: string, text: string): LinedJson {
  try {
    return linedJson(text)
  } catch (error) {
    throw error instanceof JsonFault ? refused(path, error.line, `${error.message}.`) : error
  }
}

/** Checks the text of a `models.json`. Throws `NodeStartError` with line and field. */
export function readModels(path: string, text: string): ModelsFile {
  const { value, lineOf } = parsed(path, text)
  for (const fault of findFaults(ModelsFile, value)) throw refused(path, lineOf(fault.pointer), sentenceOf(fault))
  const file = value as ModelsFile
  for (const { pointer, says } of faultsOf(file)) throw refused(path, lineOf(pointer), `${dottedPath(pointer)} ${says}`)
  return file
}

/**
 * The model servers that the owner of this computer has named; null without the file. The file comes from the agent's
 * folder, which only the owner can write, and never from the network (§30).
 */
export function loadModels(folder: string): ModelsFile | null {
  const path = join(folder, modelsFile)
  const found = statSync(path, { throwIfNoEntry: false })
  if (found === undefined) return null
  if (found.size > fileBytesMax) throw refused(path, 1, `the file has more than ${fileBytesMax} bytes.`)
  return readModels(path, readFileSync(path, 'utf8'))
}
