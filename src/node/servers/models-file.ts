import { type Static, Type } from '@sinclair/typebox'
import { inDigits } from '../../amounts.ts'
import { Confidences } from '../../confidences.ts'
import type { DeviceMb } from '../../machines/plan/model-memory.ts'
import { deviceMemory } from '../../protocol/wire/nodes/agent.ts'
import { modelFilesMax } from '../../protocol/wire/nodes/pulls.ts'
import { formed, literals, modelId, slug, strict } from '../../protocol/wire/shapes.ts'
import { kvEndpointsMax } from '../kv-events/reported-caches.ts'

export const modelsFile = 'models.json'

const modelServersMax = 32
const memoryMbMax = 16 * 1024 * 1024
/** What `memory_mb` is the memory of. */
export const mainDevice = 'memory'

const noZero = (most: number, least = 0) =>
  formed('^[^\\u0000]*$', `text of ${least} to ${inDigits(most)} characters without a zero byte`, {
    minLength: least,
    maxLength: most,
  })
const tcpPort = Type.Integer({ minimum: 1, maximum: 65_535 })
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

/** A request to the model's server itself, on this computer. */
const serverRequest = {
  method: Type.Optional(literals(['POST', 'PUT', 'GET'])),
  path: formed('^/[\\x21-\\x7e]*$', 'a path that begins with /, of at most 256 ASCII characters without spaces', {
    maxLength: 256,
  }),
  body: Type.Optional(Type.Record(Type.String(), Type.Unknown(), { ...strict, maxProperties: membersMax })),
}
const ServerRequest = Type.Object(serverRequest, strict)
export type ServerRequest = Static<typeof ServerRequest>

/** Files of the model, for other computers of the same owner (§39). `sha256`: as the hub named it; absent: the agent hashes the file. */
const OwnFile = Type.Object(
  {
    path: noZero(4_096, 1),
    sha256: Type.Optional(formed('^[0-9a-f]{64}$', 'a SHA-256 in lower-case hexadecimal digits')),
  },
  strict,
)
export type OwnFile = Static<typeof OwnFile>

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
    sleep: Type.Optional(
      Type.Object(
        {
          ...serverRequest,
          memory_mb: Type.Optional(memoryMb),
          memory: Type.Optional(deviceMemory('MiB by device that it keeps')),
        },
        strict,
      ),
    ),
    wake: Type.Optional(ServerRequest),
    logs: Type.Optional(Type.Boolean()),
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
    kv_events: Type.Optional(
      Type.Array(Type.Object({ port: tcpPort, replay_port: Type.Optional(tcpPort) }, strict), {
        minItems: 1,
        maxItems: kvEndpointsMax,
      }),
    ),
    group: Type.Optional(slug()),
    files: Type.Optional(Type.Array(OwnFile, { minItems: 1, maxItems: modelFilesMax })),
  },
  strict,
)
export type ServedModel = Static<typeof ServedModel>

export const ModelsFile = Type.Object(
  {
    memory_mb: Type.Optional(memoryMb),
    memory: Type.Optional(deviceMemory('MiB by device')),
    models: Type.Array(ServedModel, { maxItems: modelServersMax }),
  },
  strict,
)
export type ModelsFile = Static<typeof ModelsFile>

/** What a model takes, or a file has to give, by device. `memory_mb` is that of the computer itself. */
export const memoryOf = ({ memory_mb, memory = {} }: Pick<ModelsFile, 'memory_mb' | 'memory'>): DeviceMb => ({
  ...memory,
  ...(memory_mb === undefined ? {} : { [mainDevice]: memory_mb }),
})

/** All devices together. */
export const memorySum = (model: Pick<ModelsFile, 'memory_mb' | 'memory'>): number =>
  Object.values(memoryOf(model)).reduce((sum, mb) => sum + mb, 0)

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
