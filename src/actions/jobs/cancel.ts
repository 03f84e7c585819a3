import { CommandRecord } from '../../protocol/wire/inference/job.ts'
import { defineAction } from '../frame/define-action.ts'

export const cancelJob = defineAction({
  name: 'command.cancel',
  at: 'POST /v1/admin/commands/:command_id/cancel',
  policy: { role: 'operator', category: 'node_control', target: 'command', command: 'job.cancel' },
  summary: 'Cancel a private job',
  tag: 'Private jobs (extension)',
  result: CommandRecord,
  run: async ({ gateway, views, audit, role, params }) =>
    views.commandView(await gateway.jobs.cancel(params.command_id, audit), role),
  command: {
    words: 'jobs cancel',
    about: 'Cancel a job by its command id. Needs an operator’s token',
    operands: [{ name: 'COMMAND_ID', is: 'command_id', about: 'The command id (cmd_…), as `jobs list` shows it' }],
    asks: 'Cancel {COMMAND_ID}?',
    prints: (job, print) =>
      print.fields([
        ['Command', job.command_id],
        ['Job', job.job_id],
        ['Status', job.status],
      ]),
  },
  form: {
    on: 'job',
    when: { status: ['queued', 'dispatched', 'running'] },
    verb: 'Cancel job',
    button: 'Cancel',
    title: 'Cancel {job_id}',
    about: 'The node stops working on it, and its customer gets no answer.',
    confirm: 'cancel',
    destroys: true,
    done: 'The job is being cancelled.',
  },
})
