import { brand } from '../../brand.ts'
import { ForkBody, forkConfirmation, LogFork } from '../../protocol/wire/money/log.ts'
import { defineAction } from '../frame/define-action.ts'
import { settles } from './settlement.ts'

/** After a restore from an older backup: the log goes on under another name, for all to see (§31). */
export const nameFork = defineAction({
  name: 'log.fork',
  at: 'POST /v1/admin/log/fork',
  policy: { ...settles('log'), typedConfirmation: forkConfirmation },
  summary: 'Let the public log go on after a restore, under another name',
  description:
    'Only where the gateway has found that the log in the database is not the one it saw (`log_forked`). The next entry commits to the checkpoint that was lost.',
  tag: 'Public log (extension)',
  body: ForkBody,
  result: LogFork,
  run: async ({ gateway, audit }) => {
    const { origin, size, lostSize, lostNote } = await gateway.nameFork(audit)
    return { object: `${brand}.admin.log_fork`, origin, size, lost_size: lostSize, lost_checkpoint: lostNote } as const
  },
})
