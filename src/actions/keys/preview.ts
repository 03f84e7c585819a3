import { PolicyPreview, PolicyPreviewAsk } from '../../protocol/wire/admin/accounts.ts'
import { defineAction } from '../frame/define-action.ts'
import { tag } from './key.ts'

/** What a change of a policy would come to. A POST, since what it is asked for is the body of a change. */
export const previewPolicy = defineAction({
  name: 'policy.preview',
  at: 'POST /v1/admin/policy-preview',
  policy: {
    role: 'operator',
    category: 'key_management',
    target: null,
    reasonRequired: false,
    requirement: 'role_token',
  },
  summary: 'Look at a change of a policy before it is made',
  description:
    'Counts the models and nodes that the account, or a key of it, can call now and could call after the change. Changes nothing.',
  tag,
  body: PolicyPreviewAsk,
  result: PolicyPreview,
  run: ({ gateway, views, body }) => views.policyPreview(gateway, body),
})
