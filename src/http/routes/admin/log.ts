import { Elysia } from 'elysia'
import { adminRoutes } from '../../../actions/registry.ts'
import { brand } from '../../../brand.ts'
import { Problem } from '../../../errors.ts'
import { ForkBody, LogFork } from '../../../protocol/wire/money/log.ts'
import type { HttpContext } from '../../frame/context.ts'
import { reads } from '../../frame/reads.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'

/** After a restore from an older backup: the log goes on under another name, for all to see (§31). */
export const logRoutes = (context: HttpContext) =>
  new Elysia().use(admin(context)).post(
    adminRoutes['log.fork'].path,
    async ({ body: { audit } }) => {
      if (audit.confirmation === null) {
        const detail = `confirm must be exactly ${adminRoutes['log.fork'].typedConfirmation}`
        throw new Problem('confirmation_required', { param: 'confirm', detail })
      }
      const named = await context.gateway.nameFork(audit)
      return {
        object: `${brand}.admin.log_fork` as const,
        origin: named.origin,
        size: named.size,
        lost_size: named.lostSize,
        lost_checkpoint: named.lostNote,
      }
    },
    {
      action: 'log.fork',
      response: { 200: LogFork },
      ...reads(ForkBody),
      detail: describe({
        summary: 'Let the public log go on after a restore, under another name',
        description:
          'Only where the gateway has found that the log in the database is not the one it saw (`log_forked`). The next entry commits to the checkpoint that was lost.',
        tags: ['Public log (extension)'],
      }),
    },
  )
