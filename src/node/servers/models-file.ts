import { readFileSync, statSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import { type Static, Type } from '@sinclair/typebox'
import { Value, type ValueError } from '@sinclair/typebox/value'
import { Confidences } from '../../confidences.ts'
import { modelIdPattern } from '../../ids.ts'
import { literals, strict } from '../../protocol/wire/shapes.ts'
import { lexicalModelId } from '../../runtimes/runtime.ts'
import { NodeStartError } from '../membership/enrollment.ts'
import { JsonFault, type LinedJson, linedJson } from './lined-json.ts'

export const modelsFile = 'models.json'

const fileBytesMax = 256 * 1024
export const modelServersMax = 32
const memoryMbMax = 16 * 1024 * 1024

const noZero = '^[^\\u0000]*$'
const ServedModel = Type.Object(
  {
    id: Type.String({ pattern: modelIdPattern.source }),
    command: Type.Array(Type.String({ minLength: 1, maxLength: 4_096, pattern: noZero }), {
      minItems: 1,
      maxItems: 256,
    }),
    env: Type.Optional(
      Type.Record(
        Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]{0,127}$' }),
        Type.String({ maxLength: 32_768, pattern: noZero }),
        {
          ...strict,
          maxProperties: 256,
        },
      ),
    ),
    cwd: Type.Optional(Type.String({ minLength: 1, maxLength: 4_096, pattern: noZero })),
    port: Type.Optional(Type.Union([Type.Literal('auto'), Type.Integer({ minimum: 1, maximum: 65_535 })])),
    health: Type.Optional(Type.String({ maxLength: 256, pattern: '^/[\\x21-\\x7e]*$' })),
    modality: Type.Optional(literals(['chat', 'rerank'])),
    memory_mb: Type.Integer({ minimum: 1, maximum: memoryMbMax }),
    idle_ttl_s: Type.Optional(Type.Integer({ minimum: 1, maximum: 604_800 })),
    start_timeout_s: Type.Optional(Type.Integer({ minimum: 1, maximum: 3_600 })),
    slots: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_024 })),
    group: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9._-]{1,64}$' })),
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
  readonly message: string
}

/** `/models/0/command` → `models[0].command`. */
function fieldName(pointer: string): string {
  const parts = pointer.split('/').slice(1)
  const named = parts.map((part) =>
    /^\d+$/.test(part) ? `[${part}]` : `.${part.replaceAll('~1', '/').replaceAll('~0', '~')}`,
  )
  return named.join('').replace(/^\./, '')
}

/** TypeBox names the value, which may be a secret of the environment, nowhere in its messages. */
const saidOf = ({ path, message }: ValueError): Fault => ({
  pointer: path,
  message: message === 'Unexpected property' ? 'no such field' : message.toLowerCase(),
})

/** What the schema cannot say. */
function* faultsOf(file: ModelsFile): Generator<Fault> {
  const ids = new Set<string>()
  const ports = new Set<number>()
  for (const [at, { id, port, cwd, memory_mb }] of file.models.entries()) {
    const pointer = `/models/${at}`
    if (ids.has(id)) yield { pointer: `${pointer}/id`, message: 'another model has this id' }
    if (id === lexicalModelId) yield { pointer: `${pointer}/id`, message: "this is the agent's own ranker" }
    ids.add(id)
    if (typeof port === 'number') {
      if (ports.has(port)) yield { pointer: `${pointer}/port`, message: 'another model has this port' }
      ports.add(port)
    }
    if (cwd !== undefined && !isAbsolute(cwd)) yield { pointer: `${pointer}/cwd`, message: 'must begin with /' }
    if (memory_mb > file.memory_mb) {
      yield { pointer: `${pointer}/memory_mb`, message: `is more than memory_mb of the whole file, ${file.memory_mb}` }
    }
  }
}

const secretName = /key|token|secret|passw|credential/i
const secretFlag = /^--?[\w-]*(?:key|token|secret|password)(?:=(.+))?$/i

/** What the command of a model is told in confidence, and may write into its output: some write all of their arguments. */
export function confidedTo({ env = {}, command }: ServedModel): Confidences {
  const values = Object.entries(env).flatMap(([name, value]) => (secretName.test(name) ? [value] : []))
  const given = command.flatMap((argument, at) => {
    const flag = secretFlag.exec(argument)
    return flag === null ? [] : [flag[1] ?? command[at + 1] ?? '']
  })
  return new Confidences([...values, ...given])
}

const refused = (path: string, line: number, text: string) => new NodeStartError(`${path}, line ${line}: ${text}.`)

function parsed(path: string, text: string): LinedJson {
  try {
    return linedJson(text)
  } catch (error) {
    throw error instanceof JsonFault ? refused(path, error.line, error.message) : error
  }
}

/** Checks the text of a `models.json`. Throws `NodeStartError` with line and field. */
export function readModels(path: string, text: string): ModelsFile {
  const { value, lineOf } = parsed(path, text)
  const told = ({ pointer, message }: Fault) => {
    const field = fieldName(pointer)
    return refused(path, lineOf(pointer), field === '' ? message : `${field}: ${message}`)
  }
  if (!Value.Check(ModelsFile, value)) {
    const [first] = Value.Errors(ModelsFile, value)
    throw first === undefined ? refused(path, 1, 'this is no such file') : told(saidOf(first))
  }
  for (const fault of faultsOf(value)) throw told(fault)
  return value
}

/**
 * The model servers that the owner of this computer has named; null without the file. It is read from the agent's folder,
 * which nobody else can write to, and never comes by the network (§30).
 */
export function loadModels(folder: string): ModelsFile | null {
  const path = join(folder, modelsFile)
  const found = statSync(path, { throwIfNoEntry: false })
  if (found === undefined) return null
  if (found.size > fileBytesMax) throw refused(path, 1, `the file has more than ${fileBytesMax} bytes`)
  return readModels(path, readFileSync(path, 'utf8'))
}
