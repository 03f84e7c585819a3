import { Alarm, systemClock } from '../../clock.ts'
import type { Http1Connection } from './connection.ts'

/** Common servers close idle connections after 5 s; a request must not meet one in the act. */
const idleMsMax = 4_000
/** Idle connections kept to one node. */
const idleConnectionsMax = 4_096

/**
 * The kept connections of one node that carry nothing now. Each serves the requests of one isolation key alone: should a
 * node ever answer out of step, the answer stays with whom it was made for.
 */
export class IdleConnections {
  /** The youngest last, and taken first: the older ones may then grow old and go. */
  private readonly byKey = new Map<string, Http1Connection[]>()
  private count = 0
  private readonly sweeping = new Alarm(() => this.sweep(), systemClock, false)

  /** False: there are as many as may be. */
  add(connection: Http1Connection): boolean {
    if (this.count >= idleConnectionsMax) return false
    const known = this.byKey.get(connection.isolationKey)
    if (known === undefined) this.byKey.set(connection.isolationKey, [connection])
    else known.push(connection)
    this.count++
    if (!this.sweeping.isSet) this.sweeping.set(idleMsMax)
    return true
  }

  /** The youngest of this key that is not too old; null: none. */
  take(isolationKey: string): Http1Connection | null {
    const kept = this.byKey.get(isolationKey)
    const youngest = kept?.pop()
    if (kept === undefined || youngest === undefined) return null
    this.count--
    if (performance.now() - youngest.idleSinceMs < idleMsMax) return youngest
    for (const connection of [youngest, ...kept]) connection.destroy()
    return null
  }

  delete(connection: Http1Connection): void {
    const kept = this.byKey.get(connection.isolationKey)
    const at = kept?.indexOf(connection) ?? -1
    if (kept === undefined || at === -1) return
    kept.splice(at, 1)
    this.count--
  }

  destroyAll(): void {
    for (const kept of [...this.byKey.values()]) for (const connection of [...kept]) connection.destroy()
    this.byKey.clear()
  }

  /** Servers that keep connections for ever would have them from every customer who came once. */
  private sweep(): void {
    const oldestMs = performance.now() - idleMsMax
    for (const [key, kept] of this.byKey) {
      const aged = kept.filter((connection) => connection.idleSinceMs <= oldestMs)
      for (const connection of aged) connection.destroy()
      if (kept.length === 0) this.byKey.delete(key)
    }
    if (this.count > 0) this.sweeping.set(idleMsMax)
  }
}
