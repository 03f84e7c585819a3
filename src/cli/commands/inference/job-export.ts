import { brand } from '../../../brand.ts'
import { action } from '../../frame/action.ts'
import { clientOf, explained, jobFromHere } from './job-client.ts'

export const exported = action({
  about: 'Print one file with the envelopes of a job and the keys of its node, for `verify envelope`',
  operands: [{ name: 'JOB_ID', about: 'The id that `jobs submit` printed' }],
  options: {
    'with-keys': { kind: 'flag', about: 'Add the keys that open the answer: anyone who has the file can read it' },
  },
  run: async ({ operands, options }, session) => {
    const job = jobFromHere(session, operands[0] ?? '')
    const client = clientOf(session)
    const { encrypted_request, encrypted_response } = await explained(client.envelopes(job))
    const node_keys = await explained(client.nodeKeys(job.nodeId))
    const file = {
      object: `${brand}.envelope`,
      job_id: job.jobId,
      sealed_job_id: job.sealedJobId,
      model_id: job.modelId,
      node_id: job.nodeId,
      encrypted_request,
      encrypted_response,
      node_keys,
      ...(options['with-keys'] ? { response_keys: job.responseKeys } : {}),
    }
    session.show(true, file, () => '')
    return undefined
  },
})
