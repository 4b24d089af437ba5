
A PKI appears.
  + Secret/pki-authority
  + Secret/pki-bundle
  RotationReady: True, Ready, the authority is replaced from 2032-08-30 07:40 UTC on
  Ready: True

Finished: everything that was applied.

The user writes authorityGeneration: 2.
  ~ Secret/pki-authority
  ~ Secret/pki-bundle
  RotationReady: True, Trusting, programs trust the new authority before it signs certificates
  Ready: True

A client runs that started before.
  RotationReady: True, Trusting, programs trust the new authority before it signs certificates; waits for nova/nova (nova-api-1)
  Ready: True

It was made anew since.
  ~ Secret/pki-authority
  RotationReady: True, Renewing, the new authority signs certificates; the old one stays trusted until no server uses its certificates
  Ready: True

No Secret holds a certificate by the old authority, and no port shows one.
  ~ Secret/pki-authority
  ~ Secret/pki-bundle
  RotationReady: True, Ready, the authority is replaced from 2032-08-30 07:40 UTC on
  Ready: True

Nothing changes.
  RotationReady: True, Ready, the authority is replaced from 2032-08-30 07:40 UTC on
  Ready: True
