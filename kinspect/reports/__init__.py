"""`kinspect report`: a page of HTML that stands alone, from the objects of answers. Needs `kinspect[report]`."""
