import type { AuditPurge } from '../../protocol/wire/admin/audit.ts'
import { count, shortTime } from '../parts/format.ts'
import { callAdmin } from '../state/api.ts'
import type { Act, Values } from './act.ts'
import { askedFor } from './policy.ts'

const action = 'audit.retention.purge'
const path = '/v1/admin/retention/audit-events/purge'
const daysIn = ({ days = '' }: Values) => Number(days)

/** With a look before it is done: how many events there are, and how old the youngest of them can be. */
export const purgeAudit = (): Act => {
  const act: Act = {
    actions: [action],
    verb: 'Delete',
    title: 'Delete old events of the audit',
    destroys: true,
    about:
      'The gateway deletes no event by itself. What is deleted here is gone: a signed tombstone says how many events there were, so that the chains still hold.',
    fields: [{ name: 'days', label: 'Older than, days', kind: 'number', required: true, value: '365' }],
    check: (values, signal) => {
      if (!(daysIn(values) > 0)) return null
      return callAdmin(path, {
        method: 'POST',
        body: { older_than_days: daysIn(values), dry_run: true, reason: 'look before events are deleted' },
        signal,
      }).then(async (answer) => {
        const { eligible_total_event_count: events, cutoff_created_before: before } =
          (await answer.json()) as AuditPurge
        return events === 0
          ? { good: false, says: `No event is older than ${shortTime(before)}.` }
          : {
              good: true,
              says: `${count(events)} ${events === 1 ? 'event' : 'events'} from before ${shortTime(before)}.`,
            }
      })
    },
    run: (values, send) => {
      const { typed } = askedFor(act)
      const body = { older_than_days: daysIn(values), ...(typed === null ? {} : { confirm: typed }) }
      return send({ action, method: 'POST', path, body })
    },
    done: 'The old events are deleted.',
  }
  return act
}
