import { readFileSync, statSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import { type Static, Type } from '@sinclair/typebox'
import { inDigits } from '../../amounts.ts'
import { Confidences } from '../../confidences.ts'
import { findFaults } from '../../protocol/validation/faults.ts'
import { dottedPath, sentenceOf } from '../../protocol/validation/sentences.ts'
import { formed, literals, modelId, slug, strict } from '../../protocol/wire/shapes.ts'
import { lexicalModelId } from '../../runtimes/runtime.ts'
import { NodeStartError } from '../membership/enrollment.ts'
import { JsonFault, type LinedJson, linedJson } from './lined-json.ts'

export const modelsFile = 'models.json'

const fileBytesMax = 256 * 1024
export const modelServersMax = 32
const memoryMbMax = 16 * 1024 * 1024

const noZero = (most: number, least = 0) =>
  formed('^[^\\u0000]*$', `text of ${least} to ${inDigits(most)} characters without a zero byte`, {
    minLength: least,
    maxLength: most,
  })
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
    memory_mb: Type.Integer({ minimum: 1, maximum: memoryMbMax }),
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
    memory_mb: Type.Integer({ minimum: 1, maximum: memoryMbMax }),
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

/** Faults that the schema cannot express. */
function* faultsOf(file: ModelsFile): Generator<Fault> {
  const ids = new Set<string>()
  const ports = new Set<number>()
  for (const [at, { id, port, cwd, memory_mb }] of file.models.entries()) {
    const pointer = `/models/${at}`
    if (ids.has(id)) yield { pointer: `${pointer}/id`, says: 'is the id of another model, too.' }
    if (id === lexicalModelId)
      yield { pointer: `${pointer}/id`, says: "is the id of the agent's own ranker. Choose another one." }
    ids.add(id)
    if (typeof port === 'number') {
      if (ports.has(port)) yield { pointer: `${pointer}/port`, says: 'is the port of another model, too.' }
      ports.add(port)
    }
    if (cwd !== undefined && !isAbsolute(cwd)) yield { pointer: `${pointer}/cwd`, says: 'must begin with /.' }
    if (memory_mb > file.memory_mb) {
      yield { pointer: `${pointer}/memory_mb`, says: `is more than memory_mb of the whole file, ${file.memory_mb}.` }
    }
  }
}

const secretName = /key|token|secret|passw|credential/i
const secretFlag = /^--?[\w-]*(?:key|token|secret|password)(?:=(.+))?$/i

/**
 * Confidential values of a model's command, which may appear in its output: some programs print all of their arguments.
 */
export function confidedTo({ env = {}, command }: ServedModel): Confidences {
  const values = Object.entries(env).flatMap(([name, value]) => (secretName.test(name) ? [value] : []))
  const given = command.flatMap((argument, at) => {
    const flag = secretFlag.exec(argument)
    return flag === null ? [] : [flag[1] ?? command[at + 1] ?? '']
  })
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
