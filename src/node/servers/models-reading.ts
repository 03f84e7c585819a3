import { readFileSync, statSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import type { DeviceMb } from '../../machines/plan/model-memory.ts'
import { findFaults } from '../../protocol/validation/faults.ts'
import { dottedPath, sentenceOf } from '../../protocol/validation/sentences.ts'
import { lexicalModelId } from '../../runtimes/runtime.ts'
import { NodeStartError } from '../membership/enrollment.ts'
import { JsonFault, type LinedJson, linedJson } from './lined-json.ts'
import { ModelsFile, mainDevice, memoryOf, modelsFile, type RequestChange } from './models-file.ts'

export const modelsFileBytesMax = 256 * 1024

/** A fault by its place, for the person who wrote the file. */
interface Fault {
  readonly pointer: string
  /** What follows the name of the field. */
  readonly says: string
}

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

/** A server sleeps and wakes by two requests, and keeps no more than it takes. */
function* sleepFaults({ models }: ModelsFile): Generator<Fault> {
  for (const [at, model] of models.entries()) {
    const { sleep, wake, pinned } = model
    const pointer = `/models/${at}/${sleep === undefined ? 'wake' : 'sleep'}`
    if (sleep === undefined && wake === undefined) continue
    if (sleep === undefined) yield { pointer, says: 'needs sleep beside it.' }
    else if (wake === undefined) yield { pointer, says: 'needs wake beside it.' }
    if (pinned === true) yield { pointer, says: 'excludes pinned: a pinned model never leaves memory.' }
    for (const [device, mb] of Object.entries(memoryOf(sleep ?? {}))) {
      const whole = memoryOf(model)[device] ?? 0
      if (mb > whole) yield { pointer, says: `keeps more than the model takes (${device}: ${whole}).` }
    }
    if (JSON.stringify([sleep?.body, wake?.body]).length > changeBytesMax) {
      yield { pointer, says: `has a body of more than ${changeBytesMax} bytes.` }
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
  for (const [at, { id, port, cwd, modality, request, profiles = [], files = [] }] of file.models.entries()) {
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
    for (const [n, { path }] of files.entries()) {
      if (!isAbsolute(path)) yield { pointer: `${pointer}/files/${n}/path`, says: 'must begin with /.' }
    }
  }
  yield* memoryFaults(file)
  yield* pinFaults(file)
  yield* sleepFaults(file)
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
 * The model servers of this computer; null without the file. The file stands in the agent's folder, which only the owner and the agent
 * can write, and never comes over the network (§30). The agent adds entries for models that it fetched, by the owner's command
 * (docs/decisions/0050).
 */
export function loadModels(folder: string): ModelsFile | null {
  const path = join(folder, modelsFile)
  const found = statSync(path, { throwIfNoEntry: false })
  if (found === undefined) return null
  if (found.size > modelsFileBytesMax) throw refused(path, 1, `the file has more than ${modelsFileBytesMax} bytes.`)
  return readModels(path, readFileSync(path, 'utf8'))
}
