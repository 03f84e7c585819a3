import { PrivateJobTable } from './private-jobs.tsx'
import { WebhookTable } from './webhooks.tsx'

/** Private jobs and their webhooks: who, where, how far; never what. */
export function Jobs() {
  return (
    <>
      <h1>Jobs</h1>
      <PrivateJobTable />
      <WebhookTable />
    </>
  )
}
