import type { Database } from '../../db/client.ts'
import type { NodeRow } from '../../db/queries/pool/pool.ts'
import { endSleep, saveWakeFacts, saveWakeTime, storeSleep, type WakeFacts } from '../../db/queries/pool/sleeping.ts'
import { failureName, type Log } from '../../log.ts'
import { canonicalJson } from '../../protocol/json/canonical-json.ts'
import { macOf, type NodePower } from '../../protocol/wire/nodes/power.ts'
import type { Sealing } from '../accounts/sealing.ts'
import type { SleepBook } from './sleep-changes.ts'

export interface SleepBookOptions {
  readonly db: Database
  readonly log: Log
  readonly sealing: Sealing
}

/** Keeps in the rows of nodes what is learnt of their sleep. A write that fails is repeated by what is learnt next. */
export function createSleepBook({ db, log, sealing }: SleepBookOptions): SleepBook {
  const saving = new Set<string>()
  const kept = (nodeId: string, writing: Promise<void>) =>
    writing.catch((error: unknown) => log.warn('sleep_not_stored', { node_id: nodeId, failure: failureName(error) }))
  return {
    fell: (nodeId, asleep) => void kept(nodeId, storeSleep(db, nodeId, asleep)),
    rose: (nodeId, at) => void kept(nodeId, endSleep(db, nodeId, at)),
    woke: (nodeId, wakeMs) => void kept(nodeId, saveWakeTime(db, nodeId, wakeMs)),
    onPower: (row, power) => {
      const facts = changedFacts(row, power, sealing)
      // The row has the facts only when it was read again.
      if (facts === null || saving.has(row.nodeId)) return
      saving.add(row.nodeId)
      void kept(row.nodeId, saveWakeFacts(db, row.nodeId, facts)).finally(() => saving.delete(row.nodeId))
    },
  }
}

/** null: the row says it already. */
function changedFacts(row: NodeRow, power: NodePower, sealing: Sealing): WakeFacts | null {
  const macs = power.macs?.filter((mac) => macOf(mac) === mac) ?? []
  const networks = power.networks ?? []
  const secret = power.secure_on ?? null
  const known = row.wakeSecretSealed === null ? null : sealing.open('node_wake_secret', row.wakeSecretSealed)
  const facts: WakeFacts = {
    ...(canonicalJson(macs) === canonicalJson(row.macs ?? []) ? {} : { macs: macs.length === 0 ? null : macs }),
    ...(canonicalJson(networks) === canonicalJson(row.networks ?? [])
      ? {}
      : { networks: networks.length === 0 ? null : networks }),
    ...(secret === known
      ? {}
      : { wakeSecretSealed: secret === null ? null : sealing.seal('node_wake_secret', secret) }),
  }
  return Object.keys(facts).length === 0 ? null : facts
}
