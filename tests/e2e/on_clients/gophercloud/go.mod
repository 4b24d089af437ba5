// The client library whose acceptance tests run, in the folder of the module that Go downloads and compares with go.sum.
module openstack-operator/gophercloud

go 1.25.0

require github.com/gophercloud/gophercloud/v2 v2.16.0
