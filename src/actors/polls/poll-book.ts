import type { NodeId } from '../../ids.ts'
import type { PollResult } from '../../polling/node-watch.ts'
import { type Polls, pollsSentMax } from '../../protocol/wire/admin/processes.ts'
import { polledText } from './polled-text.ts'

/** Of one answer, beyond its first poll: what is parsed without a pause, characters. */
const answerTextMax = 512 * 1024

/** The last poll of one node. */
interface Entry {
  readonly nodeId: NodeId
  /** Of the address that was asked. */
  way: string
  /** null: it is too long to be told. */
  text: string | null
  /** Each poll has the next number. */
  number: number
  /** Of the last poll that found something else than the one before. */
  changed: number
  /** `performance.now()` when it went out. */
  askedMs: number
}

/** The last poll of each node that this process has made, for the other processes of its computer. */
export class PollBook {
  private number = 0
  /** One for each node of the pool at most. */
  private readonly entries = new Map<NodeId, Entry>()

  /** `way`: stands for the address that was asked, and for the key. */
  record(nodeId: NodeId, way: string, result: PollResult, askedMs: number): void {
    const text = polledText(result)
    const number = ++this.number
    const known = this.entries.get(nodeId)
    if (known === undefined) {
      this.entries.set(nodeId, { nodeId, way, text, number, changed: number, askedMs })
      return
    }
    if (known.text !== text || known.way !== way) known.changed = number
    known.way = way
    known.text = text
    known.number = number
    known.askedMs = askedMs
  }

  forget(nodeId: NodeId): void {
    this.entries.delete(nodeId)
  }

  /** Numbers go on, so that a process which asks later does not take new polls for those that it has. */
  clear(): void {
    this.entries.clear()
  }

  /** The polls after the number, as many as one answer takes. Who has all up to it gets the text of what has changed alone. */
  since(after: number, nowMs: number): Polls {
    const later = [...this.entries.values()].filter(({ number }) => number > after).sort((a, b) => a.number - b.number)
    const polls: Polls['polls'] = []
    let characters = 0
    for (const { nodeId, way, text, number, changed, askedMs } of later) {
      const sent = changed > after
      const size = text?.length ?? 0
      if (polls.length >= pollsSentMax || (sent && characters > 0 && characters + size > answerTextMax)) break
      if (sent) characters += size
      const asked = { node_id: nodeId, way, number, asked_ms_ago: Math.max(0, Math.ceil(nowMs - askedMs)) }
      polls.push(sent ? { ...asked, result: text } : asked)
    }
    const last = later[polls.length - 1]
    return { up_to: last?.number ?? Math.min(after, this.number), more: polls.length < later.length, polls }
  }
}
