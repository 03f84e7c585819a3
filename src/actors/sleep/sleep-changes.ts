import type { NodeRow } from '../../db/queries/pool/pool.ts'
import type { StoredSleep } from '../../db/queries/pool/sleeping.ts'
import type { NodeId } from '../../ids.ts'
import type { NodeState } from '../../machines/rules/routing.ts'
import type { NodePower } from '../../protocol/wire/nodes/power.ts'
import { isoTime } from '../../time.ts'
import type { NodeSleep, SleepersModel } from './node-sleep.ts'

/** Keeps what this gateway learns of nodes that sleep, for itself after a start and for the others. It never throws. */
export interface SleepBook {
  fell(nodeId: NodeId, asleep: StoredSleep): void
  /** It was seen awake then (RFC 3339), which ends every sleep before. */
  rose(nodeId: NodeId, at: string): void
  /** The node woke after this time, ms. */
  woke(nodeId: NodeId, wakeMs: number): void
  /** An agent says how its computer is woken. */
  onPower(row: NodeRow, power: NodePower): void
}

/** What is read of a node whose state has changed. */
interface Sleeper {
  readonly row: NodeRow
  readonly state: NodeState
  readonly sleep: NodeSleep
  profiles(): Iterable<SleepersModel>
}

/** The chart has moved: a node that sleeps keeps its place, as requests may wake it for what it had ready. */
export function stateChanged(node: Sleeper, before: NodeState, nowMs: number, book: SleepBook | undefined): void {
  const { row, sleep } = node
  // It may be sent to sleep before it is asked again.
  if (node.state === 'ready') sleep.sawReady(node.profiles())
  if (node.state === 'asleep') {
    const stored = sleep.isOver(row.asleep) ? null : row.asleep
    const { since, awaited } = sleep.fell(nowMs, node.profiles(), stored)
    if (stored === null) book?.fell(row.nodeId, { since, ready: Object.fromEntries(awaited) })
  } else if (before === 'asleep') {
    sleep.answered(nowMs)
    // Of a node that does not answer here, another gateway has said so.
    if (node.state !== 'stale') book?.rose(row.nodeId, isoTime(nowMs))
  } else if (node.state === 'offline') sleep.forget()
}

/** The node has answered. */
export function nodeAnswered(node: Sleeper, nowMs: number, book: SleepBook | undefined): void {
  const wakeMs = node.state === 'asleep' ? null : node.sleep.rose(node.profiles(), nowMs)
  if (wakeMs !== null) book?.woke(node.row.nodeId, wakeMs)
}
