import type { Database } from '../../db/client.ts'
import { saveAlarms } from '../../db/queries/pool/node-alarms.ts'
import { nodeIdentityKey } from '../../db/queries/pool/node-identities.ts'
import { Problem } from '../../errors.ts'
import type { Log } from '../../log.ts'
import { toBase64url } from '../../protocol/signing/base64url.ts'
import { verifyKey } from '../../protocol/signing/ed25519.ts'
import { isFresh, nodeAlarmsMessage } from '../../protocol/signing/signatures.ts'
import type { NodeAlarm } from '../../protocol/wire/nodes/alarms.ts'
import { isoTime, secondMs } from '../../time.ts'

export interface ToldAlarms {
  readonly nodeId: string
  readonly alarms: readonly NodeAlarm[]
  readonly signedAt: string
  readonly signature: string
}

/** Keeps what nodes find wrong, for the console of their owner (§36). */
export interface NodeAlarmBook {
  /** Refuses with `signature_expired`, or `signature_invalid` (also of a node that is not known). */
  tell(alarms: ToldAlarms): Promise<void>
}

export interface NodeAlarmsOptions {
  readonly db: Database
  readonly log: Log
  readonly changedHere: (topic: 'nodes') => unknown
}

export function createNodeAlarms({ db, log, changedHere }: NodeAlarmsOptions): NodeAlarmBook {
  return {
    tell: async ({ nodeId, alarms, signedAt, signature }) => {
      const at = new Date(signedAt)
      if (isoTime(at) !== signedAt || !isFresh(at.getTime() / secondMs, Date.now())) {
        throw new Problem('signature_expired')
      }
      const raw = await nodeIdentityKey(db, nodeId)
      const key = raw === null ? null : verifyKey(toBase64url(raw))
      if (key === null || !key.verify(nodeAlarmsMessage(nodeId, signedAt, alarms), signature)) {
        throw new Problem('signature_invalid')
      }
      await saveAlarms(db, nodeId, { alarms, signedAt: at })
      log.warn('node_alarms', { node_id: nodeId, alarms: alarms.length })
      await changedHere('nodes')
    },
  }
}
