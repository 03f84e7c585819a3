import {
  createPrivateJobs,
  EnvelopeError,
  GatewayAnswerError,
  GatewayError,
  NodeKeyError,
  type PrivateJobsClient,
  type SubmittedJob,
} from '../../../client/private-jobs.ts'
import { CliFailure, GatewayRefusal } from '../../frame/failure.ts'
import { checkAddress, unreachable } from '../../frame/gateway-client.ts'
import type { Session } from '../../frame/session.ts'
import { openJobBook } from './job-book.ts'

export function clientOf(session: Session): PrivateJobsClient {
  const { baseUrl, customerId, customerToken } = session.connection()
  if (customerId === null || customerToken === null) {
    throw new CliFailure('Private jobs need a customer’s id and token.', [
      'Keep them as customer_id and customer_token in ~/.config/penstock/credentials.json, beside base_url.',
      '`./penstock customers create` prints them. The gateway’s own customer is in the gateway’s credentials file.',
    ])
  }
  const send = (url: string, init: RequestInit) =>
    fetch(url, init).catch((error: unknown) => {
      throw unreachable(baseUrl, error)
    })
  return createPrivateJobs({ baseUrl, customerId, customerToken, fetch: send })
}

/** Turns failures of the client into messages that say what to do. */
export async function explained<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (error instanceof NodeKeyError) {
      throw new CliFailure(`Nothing was sent, because ${error.message}.`, [
        'If somebody set up the node anew, read the fingerprint that it prints and give it with --fingerprint.',
        'Otherwise do not trust this gateway.',
      ])
    }
    if (error instanceof EnvelopeError)
      throw new CliFailure('The answer does not come from this node, or belongs to another request.')
    if (error instanceof GatewayAnswerError) {
      throw new CliFailure(
        `The answer to this request is no gateway’s: HTTP ${error.status}, without what belongs in it.`,
        [checkAddress, 'A proxy in between may also have changed the answer. ./penstock doctor checks the gateway.'],
      )
    }
    if (error instanceof GatewayError) {
      const { status, code, text } = error
      const title = text.title ?? 'The gateway refused the request'
      throw new GatewayRefusal({ ...text, status, code, title, retryAfterSeconds: null })
    }
    throw error
  }
}

export function jobFromHere(session: Session, jobId: string): SubmittedJob {
  const book = openJobBook(session.env)
  const job = book.job(jobId)
  if (job !== null) return job
  throw new CliFailure(`You did not submit ${jobId} from here, so the keys that decrypt its answer are elsewhere.`, [
    `The file of submitted jobs is ${book.file}`,
  ])
}
