import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { PrivateFolder } from '../../host/private-files.ts'
import { modelServerStates } from '../../protocol/wire/nodes/agent.ts'
import { literals } from '../../protocol/wire/shapes.ts'
import { NodeStartError } from '../membership/enrollment.ts'
import { killMarked } from './marked-processes.ts'

export const serversFile = 'model-servers.json'
/** Time limit for ending the processes of an earlier agent, ms. */
const orphansWithinMs = 30_000

/** The file about the model servers, for the owner of this computer and for the next start. */
export const StoredServers = Type.Object({
  /** The prefix of the marks of the agent's processes. */
  word: Type.String({ pattern: '^[0-9a-f]{32}\\.$' }),
  /** What is wrong with `models.json` as it is now. Absent: nothing. */
  fault: Type.Optional(Type.String()),
  servers: Type.Array(
    Type.Object({
      model: Type.String(),
      state: literals(modelServerStates),
      since: Type.String(),
      memory_mb: Type.Integer(),
      last_lines: Type.Array(Type.String()),
    }),
  ),
})
export type StoredServers = Static<typeof StoredServers>

/**
 * Ends the servers of an agent on this folder that was killed together with its keeper. Throws `NodeStartError` if one
 * cannot be ended, because the budget would not count its memory.
 */
export async function endOrphans(folder: PrivateFolder): Promise<void> {
  const stored = folder.read(serversFile)
  if (!Value.Check(StoredServers, stored)) return
  if (await killMarked(stored.word, orphansWithinMs)) return
  throw new NodeStartError('A model server of the agent before this one still runs and cannot be ended.')
}
