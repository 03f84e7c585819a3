import { evictionMs, loadLeftMs, type ModelLoad } from '../placement/loads.ts'
import { type DeviceMb, type MemoryHolder, roomFor } from './model-memory.ts'

/** A model server of one computer: the ids that it answers to share its memory. */
export interface HostedServer {
  readonly id: string
  readonly memoryMb: DeviceMb
  readonly group: string | null
  readonly pinned: boolean
  /** Of each of its ids. */
  readonly models: readonly HostedModel[]
}

export interface HostedModel {
  /** Another computer also has it in memory, so no request waits for a load if it leaves this one. */
  readonly elsewhere: boolean
  readonly inFlight: number
  /** Exponentially weighted length of a call; null: none was measured. */
  readonly durationEwmaMs: number | null
  readonly reading: ModelLoad
}

const isBeingLoaded = ({ reading }: HostedModel) => reading.cold && reading.loadStartedAtMs !== null

/** null: neither in memory nor on its way there. */
function holderOf({ id, memoryMb, group, pinned, models }: HostedServer): MemoryHolder | null {
  const isComing = models.some(isBeingLoaded)
  if (!isComing && models.every(({ reading }) => reading.cold)) return null
  // Servers without work give way first: a server with work counts as used in the far future.
  const works = isComing || models.some(({ inFlight }) => inFlight > 0)
  const used = models.map(({ reading }) => Math.max(reading.placedAtMs, reading.loadedAtMs))
  const lastUsedMs = works ? Number.MAX_SAFE_INTEGER : Math.max(...used)
  return { id, memoryMb, group, pinned, holds: 'idle', lastUsedMs }
}

/** What callers wait if this server leaves memory: its users for its next load, and who pushes it out for its work to end. */
function leavingMs({ models }: HostedServer, nowMs: number): number {
  let usersMs = 0
  let workMs = 0
  for (const model of models) {
    if (!model.elsewhere) usersMs += evictionMs(model.reading, nowMs)
    if (isBeingLoaded(model)) workMs = Math.max(workMs, loadLeftMs(model.reading, null, nowMs))
    if (model.inFlight > 0) workMs = Math.max(workMs, model.durationEwmaMs ?? 0)
  }
  return usersMs + workMs
}

/**
 * Notes at each model that is not in memory what a load of it would cost others (§37). All models of the computer share its memory, those too
 * that are being loaded at this moment: its last report may not know of them. Which ones give way its agent decides by the same rule.
 */
export function weighEvictions(servers: readonly HostedServer[], budgetMb: DeviceMb, nowMs: number): void {
  const byId = new Map(servers.map((server) => [server.id, server]))
  const holders = servers.flatMap((server) => holderOf(server) ?? [])
  for (const { models, ...server } of servers) {
    if (!models.some(({ reading }) => reading.cold)) continue
    const room = roomFor({ ...server, holds: 'away', lastUsedMs: 0 }, holders, budgetMb)
    let waitMs = 0
    for (const id of room.kind === 'evict' ? room.ids : []) {
      const leaves = byId.get(id)
      if (leaves !== undefined) waitMs += leavingMs(leaves, nowMs)
    }
    for (const { reading } of models) reading.evictedWaitMs = reading.cold ? waitMs : 0
  }
}
