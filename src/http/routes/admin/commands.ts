import { CommandRecord } from '../../../protocol/wire/inference/job.ts'
import { report } from '../../reports/report.ts'
import { commandView } from '../../views/job.ts'

export const commandRead = report({
  action: 'command.read',
  tag: 'Private jobs (extension)',
  summary: 'Read the command of a private job',
  query: {},
  response: CommandRecord,
  read: async ({ gateway }, { role, params }) => commandView(await gateway.jobs.command(params.command_id ?? ''), role),
})
